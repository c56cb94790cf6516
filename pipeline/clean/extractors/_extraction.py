"""Run extractors in a child process that can be killed, because parsers in C can hang, crash and use too much memory.

The parent writes up to 16 pages into a file in memory, and the child appends the answers, so that they wake each other
once per batch. A page that exceeds its CPU time or crashes the child is the only one lost: the file holds the answers
before it, and a new child gets the next pages. Wall-clock time rejects no page, because a busy machine must not decide
which documents are kept; a child that does not answer for very long ends the stage.
"""

import atexit
import io
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import IO, Any, Final, NamedTuple

from clozeline.errors import StorageError
from clozeline.pipeline.clean.extractors._extractor import ExtractorOptions
from clozeline.pipeline.clean.extractors._nesting_depth import is_deeper
from clozeline.pipeline.clean.extractors._preparation import prepare_page
from clozeline.registry import Chosen, choose
from clozeline.stop_signals import die_with

BATCH: Final = 16
"""Pages per message: a round trip for each page would cost CPU time in both processes."""
EXTRACTION_REASONS: Final = ("html_depth", "timeout", "extractor_crash", "extractor_error", "extract_empty")

_RECEIVED: Final = b"received\n"
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
        self._setup |= {"memory_bytes": limits.memory_bytes, "timeout_s": limits.timeout_s,
                        "max_depth": limits.max_depth}  # fmt: skip
        self._child: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self.restarts = 0

    def extract(self, pages: Sequence[str]) -> list[Extracted]:
        """Return the text of each page or the reason why there is none, in order."""
        answers: list[Extracted] = []
        try:
            while len(answers) < len(pages):
                answers += self._ask(self._get_child(), pages[len(answers) : len(answers) + BATCH])
        except BaseException:  # also a stop by a signal: later pages must not get answers to these
            self.close()
            raise
        return answers

    def _ask(self, child: subprocess.Popen[bytes], pages: Sequence[str]) -> list[Extracted]:
        """Return the answers for a batch, up to the page at which the child died."""
        assert self._file is not None
        self._file.seek(0)
        lengths = [self._file.write(page.encode("utf-8", "replace")) for page in pages]
        self._file.truncate()  # without the answers of the batch before, and the memory of a larger one
        with suppress(BrokenPipeError):  # it died; its answers tell at which page
            _send(child, lengths)
        ended = not self._await_answers(child)
        size = os.fstat(self._file.fileno()).st_size
        stored = os.pread(self._file.fileno(), size - sum(lengths), sum(lengths))
        answers = list(_read_answers(stored))
        if ended:
            child.kill()
            status = child.wait()
            if status == os.EX_IOERR:  # no page is to blame
                raise StorageError(
                    "the extractor's process has no space for its answers: free memory and space in "
                    f"{tempfile.gettempdir()}, and run the stage again; finished units are kept"
                )
            self.restarts += 1
            self.close()
            if not stored and len(pages) > 1:  # it received no page: only one sent alone is to blame
                return self._ask(self._get_child(), pages[:1])
            if len(answers) < len(pages):
                answers.append(Extracted("", "timeout" if status == -signal.SIGPROF else "extractor_crash"))
        return answers

    def _await_answers(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait for the answers to a batch; return whether the child gave all of them."""
        assert self._file is not None
        assert child.stdout is not None
        size = self._file.tell()
        while not select.select([child.stdout], [], [], self._timeout_s * _PATIENCE)[0]:
            before, size = size, os.fstat(self._file.fileno()).st_size
            if size == before:
                raise StorageError(
                    f"the extractor's process gave no answer for {self._timeout_s * _PATIENCE:.0f} s, although a page "
                    f"may only use {self._timeout_s:g} s of CPU time: it was stopped, or the machine is overloaded; "
                    "run the stage again, finished units are kept"
                )
        return bool(os.read(child.stdout.fileno(), 1))

    def _get_child(self) -> subprocess.Popen[bytes]:
        """Return the child, which is started if there is none."""
        if self._child is not None:
            return self._child
        code = f"from {__name__} import serve; serve()"
        # in its own process group, so that Ctrl-C only reaches the parent, which then ends the child
        pipe, command = subprocess.PIPE, [sys.executable, "-c", code]
        self._file = _open_file()
        shared = self._file.fileno()
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=[shared], process_group=0)
        self._child = child
        assert child.stdout is not None
        try:
            _send(child, {**self._setup, "file": shared})
            if not select.select([child.stdout], [], [], _START_S)[0] or not os.read(child.stdout.fileno(), 1):
                raise EOFError
        except (EOFError, BrokenPipeError) as error:
            raise StorageError("the extractor's process does not start; see its message above") from error
        return child

    def close(self) -> None:
        child, self._child = self._child, None
        streams, self._file = [self._file], None
        if child is not None:
            child.kill()
            child.wait()
            streams += [child.stdin, child.stdout]
        for stream in streams:
            if stream is not None:
                with suppress(OSError):  # unsent bytes for a child that is gone, or pages that find no space
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


def _open_file() -> IO[bytes]:
    """Open a file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pages"), "wb")
    return tempfile.TemporaryFile("wb")


def _send(child: subprocess.Popen[bytes], message: object) -> None:
    assert child.stdin is not None
    child.stdin.write(json.dumps(message).encode() + b"\n")
    child.stdin.flush()


def _read_answers(stored: bytes) -> Iterator[Extracted]:
    """Yield the answers that the child stored completely."""
    file = io.BytesIO(stored[len(_RECEIVED) :])
    while (header := file.readline()).endswith(b"\n"):
        length, reason, lenient = json.loads(header)
        if len(stored_text := file.read(length)) < length:
            return
        text = stored_text.decode("utf-8", "replace")
        yield Extracted(text, "extract_empty" if not reason and not text.strip() else reason, lenient)


def serve() -> None:
    """Run the child's side: read the setup, then answer batches until the parent ends."""
    done = os.dup(1)
    os.dup2(2, 1)  # whatever a parser prints must not mix with the answers
    setup = json.loads(sys.stdin.buffer.readline())
    die_with(setup["parent"])
    resource.setrlimit(resource.RLIMIT_AS, (setup["memory_bytes"], setup["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    extractor = choose("clozeline.pipeline.clean.extractors", setup["extractor"]).build()
    os.write(done, b".")
    for lengths in map(json.loads, sys.stdin.buffer):
        _answer_batch(extractor, setup, lengths)
        os.write(done, b".")


def _answer_batch(extractor: Any, setup: Mapping[str, Any], lengths: Sequence[int]) -> None:
    file, start, end = setup["file"], 0, sum(lengths)
    end += _append(file, _RECEIVED, end)
    for length in lengths:
        # the default action of SIGPROF ends the process even inside a parser that never returns to Python, and
        # also ends a parser whose parent is gone
        signal.setitimer(signal.ITIMER_PROF, setup["timeout_s"])
        answer = _extract_page(extractor, str(os.pread(file, length, start), "utf-8"), setup["max_depth"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        start += length
        end += _append(file, answer, end)


def _append(file: int, answer: bytes, end: int) -> int:
    """Write at the end of the file and return how many bytes; end the process if there is no space for them."""
    written = 0
    with suppress(OSError):
        written = os.pwrite(file, answer, end)
    if written < len(answer):
        os._exit(os.EX_IOERR)
    return written


def _extract_page(extractor: Any, html: str, max_depth: int) -> bytes:
    """Return the answer for a page: a line with its properties, then its text."""
    try:
        if is_deeper(html, max_depth):  # parsing is quadratic in the depth
            return _pack_answer(reason="html_depth")
        html, lenient = prepare_page(html), False
        text = extractor.extract(html)
        if not text.strip():
            text, lenient = extractor.extract_leniently(html), True
        return _pack_answer(text, lenient=lenient)
    except MemoryError:
        os._exit(1)
    except Exception:
        return _pack_answer(reason="extractor_error")


def _pack_answer(text: str = "", reason: str | None = None, lenient: bool = False) -> bytes:
    stored = text.encode("utf-8", "replace")
    return json.dumps([len(stored), reason, lenient]).encode() + b"\n" + stored
