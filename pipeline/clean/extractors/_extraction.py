"""Run extractors in a child process that can be killed, because parsers in C can hang, crash and use too much memory.

The parent sends up to 16 pages per message and reads one answer per page. A page that exceeds its CPU time or crashes
the child is the only one lost: a new child gets the next pages. Wall-clock time rejects no page, because a busy machine
must not decide which documents are kept; a child that does not answer for very long ends the stage.
"""

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
from typing import IO, Any, Final, NamedTuple

from clozeline.errors import StorageError
from clozeline.pipeline.clean.extractors._extractor import ExtractorOptions, PageRefused
from clozeline.pipeline.execution.parent_process import die_with
from clozeline.registry import Chosen, choose

BATCH: Final = 16
"""Pages per message: a round trip for each page would cost as much as the parsing."""
EXTRACTION_REASONS: Final = ("timeout", "extractor_crash", "extractor_error", "extract_empty")
_FATAL: Final = ("timeout", "extractor_crash")

_LENGTH: Final = struct.Struct("<q")
_START_S: Final = 60.0
_PATIENCE: Final = 120  # wall-clock seconds per CPU second that a page may take


class Extracted(NamedTuple):
    """Text of a page, or the reason why there is none, and whether only the lenient rules found it."""

    text: str
    reason: str | None = None
    lenient: bool = False


class Extraction:
    """The parent's side: sends pages to the child process and ends it by `close`."""

    def __init__(self, chosen: Chosen) -> None:
        limits: ExtractorOptions = chosen.options
        self._timeout_s = limits.timeout_s
        self._setup = {"extractor": chosen.plain(), "parent": os.getpid()}
        self._setup |= {"memory_bytes": limits.memory_bytes, "timeout_s": limits.timeout_s}
        self._child: subprocess.Popen[bytes] | None = None
        self.restarts = 0

    def extract(self, pages: Sequence[str]) -> list[Extracted]:
        """Return the text of each page or the reason why there is none, in order."""
        answers: list[Extracted] = []
        while len(answers) < len(pages):
            answers += self._ask(self._get_child(), pages[len(answers) : len(answers) + BATCH])
        return answers

    def _ask(self, child: subprocess.Popen[bytes], pages: Sequence[str]) -> list[Extracted]:
        """Return the answers for a batch, up to the page at which the child died."""
        answers: list[Extracted] = []
        assert child.stdin is not None
        with suppress(BrokenPipeError):  # it died; reading tells at which page
            _send(child.stdin, [page.encode("utf-8", "replace") for page in pages])
        if self._read_answer(child).reason in _FATAL:
            # it died before it received all pages, for example of memory: only a page sent alone is to blame
            self.restarts += 1
            self.close()
            return [Extracted("", "extractor_crash")] if len(pages) == 1 else self._ask(self._get_child(), pages[:1])
        for _ in pages:
            answer = self._read_answer(child)
            answers.append(answer)
            if answer.reason in _FATAL:
                self.restarts += 1
                self.close()
                break
        return answers

    def _read_answer(self, child: subprocess.Popen[bytes]) -> Extracted:
        assert child.stdout is not None
        if not select.select([child.stdout], [], [], self._timeout_s * _PATIENCE)[0]:
            self.close()
            raise StorageError(
                f"the extractor's process gave no answer for {self._timeout_s * _PATIENCE:.0f} s, although a page may "
                f"only use {self._timeout_s:g} s of CPU time: it was stopped, or the machine is overloaded; run the "
                "stage again, finished units are kept"
            )
        try:
            text, reason, lenient = (part.decode("utf-8", "replace") for part in _receive(child.stdout))
        except (EOFError, ValueError):
            child.kill()
            return Extracted("", "timeout" if child.wait() == -signal.SIGPROF else "extractor_crash")
        if not reason and not text.strip():
            reason = "extract_empty"
        return Extracted(text, reason or None, bool(lenient))

    def _get_child(self) -> subprocess.Popen[bytes]:
        """Return the child, which is started if there is none."""
        if self._child is not None:
            return self._child
        code = f"from {__name__} import serve; serve()"
        # in its own process group, so that Ctrl-C only reaches the parent, which then ends the child
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
        self._child = child
        return child

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # unsent bytes for a child that is gone
                        stream.close()


def shared_extraction(chosen: Chosen) -> Extraction:
    """Return the child shared by all units of this process with equal options; it ends with the process."""
    return _shared(json.dumps(chosen.plain(), sort_keys=True), os.getpid())


@cache
def _shared(plain: str, process: int) -> Extraction:
    # per process id, because a fork must not use its parent's pipes
    extraction = Extraction(choose("clozeline.pipeline.clean.extractors", json.loads(plain)))
    atexit.register(extraction.close)
    return extraction


def _send(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    lengths = [_LENGTH.pack(len(part)) for part in parts]
    stream.write(_LENGTH.pack(len(parts)) + b"".join(lengths))
    stream.writelines(parts)
    stream.flush()


def _receive(stream: IO[bytes]) -> list[bytes]:
    count = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))[0]
    lengths = struct.unpack(f"<{count}q", _read_exactly(stream, _LENGTH.size * count))
    return [_read_exactly(stream, length) for length in lengths]


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Read `size` bytes from the file descriptor, because `select` does not see buffered bytes."""
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
            # the default action of SIGPROF ends the process even inside a parser that never returns to Python, and
            # also ends a parser whose parent is gone
            signal.setitimer(signal.ITIMER_PROF, setup["timeout_s"])
            answer = _extract_page(extractor, page)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(answers, answer)


def _extract_page(extractor: Any, page: bytes) -> list[bytes]:
    try:
        html, lenient = page.decode("utf-8"), b""
        text = extractor.extract(html)
        if not text.strip():
            text, lenient = extractor.extract_leniently(html), b"lenient"
        return [text.encode("utf-8", "replace"), b"", lenient]
    except PageRefused as refusal:
        return [b"", refusal.reason.encode(), b""]
    except MemoryError:
        os._exit(1)
    except Exception:
        return [b"", b"extractor_error", b""]
