"""Running tests on several ranks: a pool of processes that share one process group, and fresh ones that may be killed.

`RankPool` serves tests that inject no fault: it is started once and runs any number of functions. `run_ranks` starts
fresh processes of a script, for tests in which a rank dies.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_environment(rank: int, size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }


@dataclass
class Finished:
    """What fresh ranks left: exit codes (negative = killed by that signal) and both outputs."""

    codes: list[int]
    outputs: list[str]
    errors: list[str]


def start_ranks(
    size: int, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> list[subprocess.Popen[str]]:
    """Start `python ARGUMENTS` on each rank, each in a session of its own."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **rank_environment(rank, size, port), **(environment or {})},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for rank in range(size)
    ]


def wait_ranks(ranks: Sequence[subprocess.Popen[str]], timeout: float = 90) -> Finished:
    """Collect all ranks; kills what is left when the time is over, then fails."""
    finished = Finished([], [], [])
    try:
        for process in ranks:
            output, error = process.communicate(timeout=timeout)
            finished.codes.append(process.returncode)
            finished.outputs.append(output)
            finished.errors.append(error)
    finally:
        for process in ranks:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    return finished


def run_ranks(
    size: int, arguments: Sequence[str], environment: Mapping[str, str] | None = None, timeout: float = 90
) -> Finished:
    """Start `python ARGUMENTS` on each rank and wait for all."""
    return wait_ranks(start_ranks(size, arguments, environment), timeout)


class RankPool:
    """Processes that share one process group and run functions together.

    A function is called as `function(world, *arguments)` on every rank; results come back in rank order. It must be
    importable in a fresh process.
    """

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        port = free_port()
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank_environment(rank, size, port), theirs), daemon=True, name=f"rank-{rank}"
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function: Callable[..., Any], *arguments: Any, timeout: float = 120) -> list[Any]:
        for pipe in self._pipes:
            pipe.send((function, arguments))
        results, problems = [], []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(timeout):
                raise TimeoutError(f"rank {rank}: {function.__name__} gave no answer in {timeout} s")
            good, value = pipe.recv()
            results.append(value)
            if not good:
                problems.append(f"rank {rank}:\n{value}")
        if problems:
            raise AssertionError("\n".join(problems))
        return results

    def close(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self._processes:
            process.join(timeout=20)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()


def _serve(environment: Mapping[str, str], pipe: Connection) -> None:
    os.environ.update(environment)
    import torch

    from train.distributed import start

    torch.set_num_threads(1)
    world = start()
    while (job := pipe.recv()) is not None:
        function, arguments = job
        try:
            pipe.send((True, function(world, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    world.shutdown()
