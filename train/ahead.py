"""Batches built ahead in a thread of their own, so that the training thread only takes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from train.errors import StreamError

__all__ = ["Ahead"]

T = TypeVar("T")
_CLOSING_S: Final = 0.8


class Ahead(Generic[T]):
    """Calls `build()` again and again from the first `get` on, at most `depth` results ahead of it.

    Args:
        build: makes the next result; its exception ends the thread and comes out of `get`.
        depth: results that may wait.
    """

    def __init__(self, build: Callable[[], T], depth: int) -> None:
        self._build = build
        self._ready: SimpleQueue[T | BaseException] = SimpleQueue()
        self._room = threading.Semaphore(depth)
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="clozeline-build", daemon=True)
        self.wait_seconds = 0.0
        """Time that `get` waited."""

    def get(self) -> T:
        """The next result, in order; an exception of `build` is raised here, and nothing follows it."""
        if self._thread.ident is None:  # not before somebody holds this object, who can stop it
            self._thread.start()
        try:
            found = self._ready.get_nowait()
        except Empty:
            begun = time.perf_counter()
            found = self._ready.get()
            self.wait_seconds += time.perf_counter() - begun
        self._room.release()
        if isinstance(found, BaseException):
            raise found
        return found

    def stop(self) -> None:
        """Build nothing more; who waits in `get`, in another thread, is told."""
        self._stop = True
        self._room.release()
        self._ready.put(StreamError("the stream was closed while a batch was waited for"))

    def join(self) -> bool:
        """Wait less than a second for what is being built; whether the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(_CLOSING_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._room.acquire()
            if self._stop:
                return
            try:
                self._ready.put(self._build())
            except BaseException as error:  # every error belongs to whoever asks for the result
                self._ready.put(error)
                return
