"""Entry points of ranks that meet a fault: the product carries no fault code, these patch the point first."""

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from clozeline.pipeline.shards import open_shards
from clozeline.train import command, loop
from clozeline.train.checkpoint import checkpoints as checkpoint
from clozeline.train.checkpoint import part_writer
from clozeline.train.checkpoint.format import Index
from clozeline.train.command import main
from clozeline.train.data.stream.stream import Stream
from clozeline.train.engine import Engine
from clozeline.train.logs.recorder import Recorder


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


def kill_in_save(point: str, victim: int, *arguments: str) -> int:
    """Die during the second save: rank 0 commits, every rank writes a part."""
    saves = 0

    def count(*_: Any) -> None:
        nonlocal saves
        saves += 1

    before(checkpoint.Checkpoints, "save", count)

    def at(where: str) -> Callable[..., None]:
        return lambda *_: kill_myself() if where == point and saves == 2 and rank() == victim else None

    before(part_writer, "save_file", at("before part"))
    before(part_writer, "sync", at("after part"))
    before(Index, "write", at("before index"))
    before(checkpoint, "remove", lambda path: at("before rename")() if path.name.startswith("step-") else None)
    before(checkpoint, "sync", lambda path: at("after rename")() if path.name == "checkpoints" else None)
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "latest":
            at("before latest")()
            real(self, target)
            at("after latest")()
            return target
        return real(self, target)

    Path.replace = replace  # type: ignore[method-assign]
    real_save = part_writer.save_file

    def half(tensors: Any, path: Path) -> None:
        real_save(tensors, path)
        if point == "half a part" and saves == 2 and rank() == victim:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            kill_myself()

    part_writer.save_file = half
    return main(arguments)


def refuse_memory(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of ...")


def fault_in_step(kind: str, step: int, victim: int | None, *arguments: str) -> int:
    """Kill, raise, hang or signal a rank, or all of them, when a step begins, or let its memory be full."""

    def act(engine: Engine, batches: Any, counts: Any, number: int, rate: float) -> None:
        if number != step or victim not in (None, rank()):
            return
        if kind == "kill":
            kill_myself()
        elif kind == "raise":
            raise ZeroDivisionError("injected")
        elif kind == "memory of the host":
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")
        elif kind == "memory of the device":
            engine.model.register_forward_pre_hook(refuse_memory)
        elif kind == "hang":
            time.sleep(3600)
        else:
            os.kill(os.getpid(), getattr(signal, kind))

    before(Engine, "step", act)
    return main(arguments)


def signal_in_background(ignored_at: int, stopped_at: int, *arguments: str) -> int:
    """Ignore SIGINT and SIGHUP from the start, send both in one step, and SIGTERM in another one."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def act(engine: Engine, batches: Any, counts: Any, number: int, rate: float) -> None:
        sent = {ignored_at: (signal.SIGINT, signal.SIGHUP), stopped_at: (signal.SIGTERM,)}
        for one in sent.get(number, ()):
            os.kill(os.getpid(), one)

    before(Engine, "step", act)
    return main(arguments)


def launcher_goes(step: int, *arguments: str) -> int:
    """From a step on, the process that launched the ranks is another one, as after a kill of the command."""
    from clozeline.train.distributed import stopping

    os.environ["CROSS_RANK"] = "0"
    asked = 0

    def launcher() -> int:
        nonlocal asked
        asked += 1
        return 4711 if asked <= step else 1

    stopping._launcher = launcher
    return main(arguments)


def small_files(limit: int, *arguments: str) -> int:
    """No file may grow beyond `limit` bytes, as on a full disk; needs no privileges."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before(loop, "train", lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    from clozeline.train import run as run_module

    run_module.train = loop.train
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


def kill_after_load(*arguments: str) -> int:
    """Die when a rollback has loaded its checkpoint, and before it changes a record."""
    before(Recorder, "rewind", kill_myself)
    return main(arguments)


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


def stop_before_the_commit(*arguments: str) -> int:
    """Ask for a stop when the first save has begun; its part is held back until it is waited for."""
    real, held = part_writer.save_file, threading.Event()

    def write(tensors: Any, path: Path) -> None:
        assert held.wait(20), "it was not waited for"
        real(tensors, path)

    def begin(saves: checkpoint.Checkpoints, *given: Any, **options: Any) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return save(saves, *given, **options)

    part_writer.save_file, save = write, checkpoint.Checkpoints.save
    checkpoint.Checkpoints.save = begin  # type: ignore[method-assign]
    before(checkpoint.Checkpoints, "finish", lambda saves: held.set() if saves._pending else None)
    return main(arguments)
