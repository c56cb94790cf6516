"""Extraction in a child process that can be killed: parsers in C can hang, crash and grow.

The parent sends up to 16 pages in one message and reads one answer a page. A page over its processor time, or one that
ends the child, costs only itself: a new child gets the pages after it. The clock rejects no page, because a busy
machine must not decide which documents are kept: a child without an answer for very long ends the stage.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import IO, Any, Final, NamedTuple

from clozeline.errors import StorageError
from clozeline.pipeline.clean.extractors._extractor import ExtractorOptions, Refused
from clozeline.pipeline.execution.parent_process import die_with
from clozeline.registry import Chosen, choose

BATCH: Final = 16
"""Pages in one message: one round trip a page would cost as much as the parsing."""
EXTRACTION_REASONS: Final = ("timeout", "extractor_crash", "extractor_error", "extract_empty")
_FATAL: Final = ("timeout", "extractor_crash")

_LENGTH: Final = struct.Struct("<q")
_START_S: Final = 60.0
_PATIENCE: Final = 120
"""Seconds by the clock for each processor second that a page may take."""


class Extracted(NamedTuple):
    """Text of a page, or the reason why there is none; whether only the second try found it."""

    text: str
    reason: str | None = None
    again: bool = False


class Extraction:
    """The parent's side: a context manager that ends the child process."""

    def __init__(self, chosen: Chosen) -> None:
        limits: ExtractorOptions = chosen.options
        self._timeout_s = limits.timeout_s
        self._setup = {
            "extractor": chosen.plain(),
            "memory_bytes": limits.memory_bytes,
            "timeout_s": limits.timeout_s,
            "parent": os.getpid(),
        }
        self._child: subprocess.Popen[bytes] | None = None
        self.restarts = 0

    def __enter__(self) -> Extraction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def extract(self, pages: Sequence[str]) -> list[Extracted]:
        """Return the text of each page, or the reason for having none, in order.

        Raises:
            StorageError: the child cannot be started, or does not answer.
        """
        answers: list[Extracted] = []
        while len(answers) < len(pages):
            rest = pages[len(answers) : len(answers) + BATCH]
            child = self._running()
            answers += self._ask(child, rest)
        return answers

    def _ask(self, child: subprocess.Popen[bytes], pages: Sequence[str]) -> list[Extracted]:
        """Return the answers of one batch, up to the page at which the child had to be ended."""
        answers: list[Extracted] = []
        assert child.stdin is not None
        with suppress(BrokenPipeError):  # it died; reading tells at which page
            _send(child.stdin, [page.encode("utf-8", "replace") for page in pages])
        if self._answer(child).reason in _FATAL:
            # It died before it had them all (of memory, say): only a page sent alone can be blamed.
            self.restarts += 1
            self.close()
            return [Extracted("", "extractor_crash")] if len(pages) == 1 else self._ask(self._running(), pages[:1])
        for _ in pages:
            answer = self._answer(child)
            answers.append(answer)
            if answer.reason in _FATAL:
                self.restarts += 1
                self.close()
                break
        return answers

    def _answer(self, child: subprocess.Popen[bytes]) -> Extracted:
        assert child.stdout is not None
        if not select.select([child.stdout], [], [], self._timeout_s * _PATIENCE)[0]:
            self.close()
            raise StorageError(
                f"the extractor's process gave no answer for {self._timeout_s * _PATIENCE:.0f} s, although a page ends "
                f"after {self._timeout_s:g} s of processor time: it was stopped, or the machine is overloaded; run the "
                "stage again, finished units are kept"
            )
        try:
            text, reason, again = (part.decode("utf-8", "replace") for part in _receive(child.stdout))
        except (EOFError, ValueError):
            child.kill()
            return Extracted("", "timeout" if child.wait() == -signal.SIGPROF else "extractor_crash")
        if not reason and not text.strip():
            reason = "extract_empty"
        return Extracted(text, reason or None, bool(again))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> subprocess.Popen[bytes]:
        code = f"from {__name__} import serve; serve()"
        # In a group of its own: Ctrl-C is for the process that asks, which then ends the child.
        pipe, command = subprocess.PIPE, [sys.executable, "-c", code]
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, process_group=0)
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            _send(child.stdin, [json.dumps(self._setup).encode()])
            if not select.select([child.stdout], [], [], _START_S)[0]:
                raise EOFError
            _receive(child.stdout)
        except (EOFError, BrokenPipeError) as error:
            child.kill()
            child.wait()
            raise StorageError("the extractor's process does not start; see its message above") from error
        return child

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # unsent bytes for a child that is gone
                        stream.close()


def shared_extraction(chosen: Chosen) -> Extraction:
    """Return the child that all units of this process with equal options share; it ends with the process."""
    return _shared(json.dumps(chosen.plain(), sort_keys=True), os.getpid())


@cache
def _shared(plain: str, process: int) -> Extraction:
    # By process: a fork must not talk through its parent's pipes.
    extraction = Extraction(choose("clozeline.pipeline.clean.extractors", json.loads(plain)))
    atexit.register(extraction.close)
    return extraction


def _send(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    lengths = [_LENGTH.pack(len(part)) for part in parts]
    stream.write(_LENGTH.pack(len(parts)) + b"".join(lengths))
    for part in parts:
        stream.write(part)
    stream.flush()


def _receive(stream: IO[bytes]) -> list[bytes]:
    count = _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0]
    lengths = struct.unpack(f"<{count}q", _exactly(stream, _LENGTH.size * count))
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """Read `size` bytes from the descriptor itself, because `select` does not see what a buffer holds."""
    pieces: list[bytes] = []
    while size:
        piece = os.read(stream.fileno(), min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def serve() -> None:
    """Run the child's side: read the setup, then answer batches until the parent ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a parser prints must not mix with the answers
    setup = json.loads(_receive(requests)[0])
    die_with(setup["parent"])
    resource.setrlimit(resource.RLIMIT_AS, (setup["memory_bytes"], setup["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    extractor = choose("clozeline.pipeline.clean.extractors", setup["extractor"]).build()
    _send(answers, [b"ready"])
    while True:
        try:
            pages = _receive(requests)
        except EOFError:
            return
        except MemoryError:
            os._exit(1)
        _send(answers, [b"", b"received", b""])
        for page in pages:
            # The default action ends the process even inside a parser that never returns to Python, where no thread
            # of ours could run. It also ends a parser whose parent is gone.
            signal.setitimer(signal.ITIMER_PROF, setup["timeout_s"])
            answer = _work(extractor, page)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(answers, answer)


def _work(extractor: Any, page: bytes) -> list[bytes]:
    try:
        html, again = page.decode("utf-8"), b""
        text = extractor.extract(html)
        if not text.strip():
            text, again = extractor.extract_again(html), b"again"
        return [text.encode("utf-8", "replace"), b"", again]
    except Refused as refused:
        return [b"", refused.reason.encode(), b""]
    except MemoryError:
        os._exit(1)
    except Exception:
        return [b"", b"extractor_error", b""]
