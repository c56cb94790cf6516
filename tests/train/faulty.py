"""Entry points of ranks that meet a fault: the product carries no fault code, these patch the point first."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clozeline.pipeline.shards import open_shards
from clozeline.train import command
from clozeline.train.checkpoint import part_writer
from clozeline.train.command import main
from clozeline.train.data.stream.stream import Stream
from clozeline.train.engine import Engine


def rank() -> int:
    return int(os.environ["RANK"])


def kill_myself(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, act: Callable[..., Any]) -> None:
    """Call `act(*arguments)` before each call of `owner.name`."""
    real = getattr(owner, name)

    def patched(*arguments: Any, **options: Any) -> Any:
        act(*arguments)
        return real(*arguments, **options)

    setattr(owner, name, patched)


def train_normally(*arguments: str) -> int:
    return main(arguments)


def train_impatiently(*arguments: str) -> int:
    """Train; a rank that prints no message ends soon after the one that does, which no launcher follows here."""
    command._PATIENCE_S = dict.fromkeys((False, True), 1.0)  # type: ignore[misc]
    return main(arguments)


def fault_in_step(kind: str, step: int, victim: int | None, *arguments: str) -> int:
    """Kill, hang or signal a rank, or all of them, when a step begins."""

    def act(engine: Engine, batches: Any, counts: Any, number: int, rate: float) -> None:
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


def other_seed_on_rank_one(*arguments: str) -> int:
    """Ranks that were started with different configurations."""
    return main([*arguments, *(["seed=99"] if rank() == 1 else [])])


def stream_an_epoch(url: str) -> int:
    """Print the rows of this rank's part of one epoch, and what is left of descriptors and threads after closing."""
    size, lanes = int(os.environ["WORLD_SIZE"]), 8
    files = len(list(Path("/proc/self/fd").iterdir()))
    shards = open_shards(url)
    stream = Stream(shards, rank=rank(), world_size=size, lanes=lanes, seed=3, global_batch=16, micro_batch=16 // size)
    rows = []
    while stream.samples < stream.samples_per_epoch:
        rows += [batch.origin.tolist() for batch in stream.next_step()]
    stats = stream.stats()
    stream.close()
    for thread in set(threading.enumerate()) - {threading.main_thread()}:
        thread.join(10)
    left = len(list(Path("/proc/self/fd").iterdir())) - files
    print(json.dumps({"rows": rows, "stats": stats, "left": [left, threading.active_count()]}), flush=True)
    return 0


def kill_at_replace(target: str, occurrence: int, when: str, *arguments: str) -> int:
    """Die before or after a file or folder of this name is put in place for the n-th time; list all that are."""
    seen: list[str] = []

    def patch(name: str) -> None:
        real = getattr(os, name)

        def replace(source: Any, place: Any, **options: Any) -> None:
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


def stop_in_write(*arguments: str) -> int:
    """Ask for a stop while the first part is written; the part is held back until a step later has begun."""
    real, held, steps = part_writer.save_file, threading.Event(), 0

    def write(tensors: Any, path: Path) -> None:
        assert held.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        real(tensors, path)

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            held.set()

    part_writer.save_file = write
    before(Engine, "step", count)
    return main(arguments)
