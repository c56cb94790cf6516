"""Entry points of ranks that meet a fault: the product carries no fault code, these patch the point
first."""

import json
import os
import signal
import time
from pathlib import Path

from clozeline.train.command import main
from clozeline.train.engine import Engine


def rank():
    return int(os.environ["RANK"])


def kill_myself(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner, name, act):
    """Call `act(*arguments)` before each call of `owner.name`."""
    real = getattr(owner, name)

    def patched(*arguments, **options):
        act(*arguments)
        return real(*arguments, **options)

    setattr(owner, name, patched)


def train_normally(*arguments):
    return main(arguments)


def fault_in_step(kind, step, victim, *arguments):
    """Kill, hang or signal a rank, or all of them, when a step begins."""

    def act(engine, batches, counts, number, rate):
        if number != step or victim not in (None, rank()):
            return
        if kind == "kill":
            kill_myself()
        elif kind == "hang":
            time.sleep(3600)
        else:
            os.kill(os.getpid(), getattr(signal, kind))

    before(Engine, "step", act)
    return main(arguments)


def other_seed_on_rank_one(*arguments):
    """Ranks that were started with different configurations."""
    return main([*arguments, *(["seed=99"] if rank() == 1 else [])])


def kill_at_replace(target, occurrence, when, *arguments):
    """Die before or after a file or folder of this name is put in place for the n-th time.

    List all that are.
    """
    seen = []

    def patch(name):
        real = getattr(os, name)

        def replace(source, place, **options):
            seen.append(Path(place).name)
            here = seen[-1] == target and seen.count(target) == occurrence
            if here and when == "before":
                kill_myself()
            real(source, place, **options)
            if here:
                kill_myself()

        setattr(os, name, replace)

    patch("replace")
    patch("rename")
    code = main(arguments)
    print(json.dumps(seen))
    return code
