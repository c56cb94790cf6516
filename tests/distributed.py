"""Running tests on several ranks: a pool of processes that share one process group, and fresh ones
that may die.

Processes are forked from a server that has imported torch and DeepSpeed already, so a fresh rank
costs a fraction of a second. `RankPool` serves tests that inject no fault; `run_ranks` starts ranks
of its own for each call.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent

# Read by torch and DeepSpeed when the server imports them.
os.environ.setdefault("DS_ACCELERATOR", "cpu")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.preloaded"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_environment(rank, size, port):
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
    """Outcome of fresh ranks: exit codes (negative = killed by that signal) and all that they
    wrote."""

    codes: list[int]
    outputs: list[str]
    errors: list[str]
    left: list[str] = field(default_factory=list)
    """processes that had not ended by themselves: ranks, or what they started"""


class Ranks:
    """Fresh processes that each call `function(*arguments)`; its result is the exit code."""

    def __init__(self, size, function, arguments, folder, environment=None):
        port = free_port()
        self.logs = [
            (folder / f"rank{rank}.out", folder / f"rank{rank}.err") for rank in range(size)
        ]
        self.processes = []

        for rank in range(size):
            variables = {**rank_environment(rank, size, port), **(environment or {})}
            process = _CONTEXT.Process(
                target=_call, args=(variables, self.logs[rank], function, arguments)
            )
            process.start()
            self.processes.append(process)

    def finish(self, timeout=300):
        """Wait for all.

        What is left when the time is over, or when this is interrupted, is killed.
        """
        deadline = time.monotonic() + timeout

        try:
            for process in self.processes:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            left = self.kill()

        return Finished(
            [process.exitcode or 0 for process in self.processes],
            [output.read_text() if output.exists() else "" for output, _ in self.logs],
            [error.read_text() if error.exists() else "" for _, error in self.logs],
            left,
        )

    def kill(self):
        """Kill the ranks and what they started, if it has not ended; return what that was."""
        left = [process for rank in self.processes for process in _session(rank.pid or -1)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

        for rank in self.processes:
            rank.kill()  # also one that has no session yet
            rank.join()

        return [str(process) for process in left]


def _session(leader):
    """Processes of the session that a rank leads, which its children stay in after its end."""
    found = []

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)

    return found


def run_ranks(size, function, *arguments, folder, timeout=300):
    """Call `function(*arguments)` on fresh ranks and wait for all of them."""
    return Ranks(size, function, arguments, folder).finish(timeout)


def run_program(code, folder, timeout=300):
    """Run Python code in a folder as `python -c` would, in a process that has imported torch
    already."""
    return run_ranks(1, _execute, code, str(folder), folder=folder, timeout=timeout)


def _execute(code, folder):
    os.chdir(folder)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    return 0


def _call(environment, logs, function, arguments):
    os.setsid()
    os.environ.update(environment)
    for descriptor, path in zip((1, 2), logs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    # The fork server ignores the signal, and has it blocked too if a pipeline of this process
    # started it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test`
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.exit(function(*arguments))


class RankPool:
    """Processes that share one process group and run functions together.

    A function is called as `function(world, *arguments)` on every rank; results come back in rank
    order.
    """

    def __init__(self, size):
        port = free_port()
        self._pipes = []
        self._processes = []

        for rank in range(size):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(
                target=_serve, args=(rank_environment(rank, size, port), theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function, *arguments, timeout=300):
        for pipe in self._pipes:
            pipe.send((function, arguments))
        results = []
        problems = []

        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(timeout):
                raise TimeoutError(
                    f"rank {rank}: {function.__name__} gave no answer in {timeout} s"
                )

            good, value = pipe.recv()
            results.append(value)
            if not good:
                problems.append(f"rank {rank}:\n{value}")

        if problems:
            raise AssertionError("\n".join(problems))
        return results

    def close(self):
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


def _serve(environment, pipe):
    os.environ.update(environment)
    import torch

    from clozeline.train.distributed.process_group import join_process_group

    torch.set_num_threads(1)
    world = join_process_group()

    while (job := pipe.recv()) is not None:
        function, arguments = job
        try:
            pipe.send((True, function(world, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))

    world.shutdown()
