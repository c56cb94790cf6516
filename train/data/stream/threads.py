"""Run the threads of a stream: loaders that run submitted tasks, and one that builds batches ahead.

All are daemon threads: a process can end while one of them hangs in a slow read.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar

from clozeline.errors import StreamError

Result = TypeVar("Result")
_Task: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]
_CLOSING_S: Final = 0.8


class LoaderThreads:
    """A fixed pool of daemon threads, which never delay the end of the interpreter.

    With `count` 0 the caller does the work.
    """

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(self._tasks,), name=f"{name}-{n}", daemon=True)
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        """Run `function(*arguments)` in a thread; without threads, run it now."""
        future: Future[Result] = Future()
        if self.count:
            self._tasks.put((future, function, arguments))
        else:
            future.set_result(function(*arguments))
        return future

    def release(self) -> None:
        """Let the threads end after all submitted tasks, without waiting; safe in a finalizer."""
        for _ in self._threads:
            self._tasks.put(None)

    def close(self) -> None:
        """Release the threads and wait for them, less than a second."""
        self.release()
        deadline = time.monotonic() + _CLOSING_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    """Run tasks from the queue until it gives None."""
    while (task := tasks.get()) is not None:
        future, function, arguments = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # raised again by `Future.result`
                future.set_exception(error)
        del task, future, function, arguments  # an idle thread must not hold a round in memory


class BackgroundBuilder(Generic[Result]):
    """A thread that calls `build` repeatedly, at most `depth` results ahead.

    It starts at the first `get`. An exception of `build` ends the thread and is raised by `get`.
    """

    def __init__(self, build: Callable[[], Result], depth: int) -> None:
        self._build = build
        self._ready: SimpleQueue[Result | BaseException] = SimpleQueue()
        # a queue, not a semaphore: a finalizer may call `stop` in the thread that waits for room
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self._room.put(None)
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="clozeline-build", daemon=True)
        self.wait_seconds = 0.0
        """Seconds that `get` has waited."""

    def get(self) -> Result:
        """Return the next result, or raise the exception of `build`."""
        if self._thread.ident is None:  # not in `__init__`, so that the owner can always stop it
            self._thread.start()
        try:
            result = self._ready.get_nowait()
        except Empty:
            begun = time.perf_counter()
            result = self._ready.get()
            self.wait_seconds += time.perf_counter() - begun

        self._room.put(None)
        if isinstance(result, BaseException):
            raise result
        return result

    def stop(self) -> None:
        """Stop building without waiting; a `get` that waits in another thread raises."""
        self._stop = True
        self._room.put(None)
        self._ready.put(StreamError("the stream was closed while a batch was waited for"))

    def join(self) -> None:
        """Wait less than a second for the end of the thread."""
        if self._thread.ident is not None:
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        while True:
            self._room.get()
            if self._stop:
                return
            try:
                self._ready.put(self._build())
            except BaseException as error:  # `get` raises every error
                self._ready.put(error)
                return
