"""Daemon threads that run what is submitted, and let a process end while one of them hangs in a slow read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

__all__ = ["Workers"]

T = TypeVar("T")
_CLOSING_S: Final = 0.8


class Workers:
    """A fixed number of threads; unlike those of `concurrent.futures` they never keep the interpreter alive.

    Args:
        count: threads, at least 1.
        name: prefix of the threads' names.
    """

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run `function(*arguments)` in a thread."""
        future: Future[T] = Future()
        self._tasks.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Let the threads end after what they have begun; waits less than a second for them."""
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + _CLOSING_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # whoever waits for the result gets it
                future.set_exception(error)
            del task, future, function, arguments  # an idle thread must not keep a round alive
