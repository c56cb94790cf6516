"""Run extractors in a child process, because C parsers can hang, crash and exhaust memory.

Pages and answers are lines of JSON on a socket, one page at a time. A page that exceeds its CPU
time or crashes the child is therefore the only one lost. Wall-clock time rejects no page, because a
busy machine must not decide which documents are kept. A child that does not answer for very long
ends the stage.
"""

import atexit
import json
import os
import resource
import signal
import socket
import subprocess
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from clozeline.errors import StorageError
from clozeline.pipeline.clean.extractors import ExtractorOptions
from clozeline.pipeline.clean.extractors._preparation import prepare_page
from clozeline.pipeline.registries import EXTRACTORS, ExtractorComponent
from clozeline.pipeline.text.superscripts import drop_references
from clozeline.process import die_with, python_command, start_child

EXTRACTION_KEYS: Final = dict.fromkeys(
    ("timeout", "extractor_crash", "extractor_error", "extract_empty"), "clean.extractor"
)
"""The configuration key behind each reason of an extraction."""
_START_S: Final = 60.0
_WALL_PER_CPU_SECOND: Final = 120
"""Wall-clock seconds per CPU second that a page may take."""


_Running: TypeAlias = tuple[subprocess.Popen[bytes], socket.socket, BinaryIO]
"""A child process, and the stream to it and from it."""


class ExtractionResult(NamedTuple):
    """The text of a page, or the reason why it has none.

    `lenient` is true if only the lenient rules found the text.
    """

    text: str
    reason: str | None = None
    lenient: bool = False


class ExtractorProcess:
    """The child process from the parent's side: sends pages; `close` ends it."""

    def __init__(self, component: ExtractorComponent) -> None:
        limits: ExtractorOptions = component.options
        self._patience_s = limits.timeout_s * _WALL_PER_CPU_SECOND
        self._too_slow = (
            f"the extractor's process did not answer for {self._patience_s:.0f} s, although a page "
            f"may only use {limits.timeout_s:g} s of CPU time: it was stopped, or the machine is "
            "overloaded. Run the stage again: finished units are kept"
        )
        self._setup = {"extractor": component.as_dict(), "parent": os.getpid()}
        self._running: _Running | None = None
        self.restarts = 0

    def extract(self, html: str) -> ExtractionResult:
        """Return the text of a page or the reason why there is none.

        If two processes die at a page, the page is to blame; one process may have been killed by
        somebody. A page that exceeds its time is not tried again.
        """
        page = json.dumps(html, ensure_ascii=False).encode("utf-8", "replace")
        reason = ""
        for _ in range(2):
            answer = self._send_page(page)
            if isinstance(answer, ExtractionResult):
                return answer
            self.restarts += 1
            reason = "timeout" if answer == -signal.SIGPROF else "extractor_crash"
            if reason == "timeout":
                break
        return ExtractionResult("", reason)

    def _send_page(self, page: bytes) -> ExtractionResult | int:
        """Return the answer to a page, or the exit status of the process if it died."""
        child, sender, answers = self._running or self._start()

        try:
            line = b""
            with suppress(BrokenPipeError, ConnectionResetError):
                sender.sendall(page + b"\n")
                line = answers.readline()
            if line.endswith(b"\n"):
                return ExtractionResult(*json.loads(line))

            status = child.wait(_START_S)
        except TimeoutError as error:
            self.close()
            raise StorageError(self._too_slow) from error
        except BaseException:  # also a stop by a signal: later pages must not get this answer
            self.close()
            raise

        self.close()
        return status

    def _start(self) -> _Running:
        ours, theirs = socket.socketpair()
        code = f"from {__name__} import serve; serve({theirs.fileno()})"

        with theirs:
            # a separate process group: Ctrl-C then only reaches the parent, which ends the child
            child = start_child(
                python_command("-c", code),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

        self._running = child, ours, ours.makefile("rb")

        try:
            ours.settimeout(_START_S)
            ours.sendall(json.dumps(self._setup).encode() + b"\n")
            if not self._running[2].readline():
                raise EOFError
        except (EOFError, OSError) as error:
            self.close()
            raise StorageError(
                "the extractor's process does not start; see its error above"
            ) from error

        ours.settimeout(self._patience_s)
        return self._running

    def close(self) -> None:
        if self._running is None:
            return
        child, sender, answers = self._running
        self._running = None
        child.kill()
        child.wait()
        sender.close()
        answers.close()


def shared_extractor_process(component: ExtractorComponent) -> ExtractorProcess:
    """Return the child process that all units of this process share for equal options."""
    return _shared(json.dumps(component.as_dict(), sort_keys=True), os.getpid())


@cache
def _shared(component: str, process: int) -> ExtractorProcess:
    # one per process id, because a fork must not use its parent's socket
    extraction = ExtractorProcess(EXTRACTORS.resolve(json.loads(component)))
    atexit.register(extraction.close)
    return extraction


def serve(descriptor: int) -> None:
    """Run the child: read the setup, then answer pages until the parent ends."""
    os.dup2(2, 1)

    with socket.socket(fileno=descriptor) as sender, sender.makefile("rb") as pages:
        setup = json.loads(pages.readline())
        die_with(setup["parent"])
        component = EXTRACTORS.resolve(setup["extractor"])
        limits: ExtractorOptions = component.options
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        extractor = component.build()
        sender.sendall(b"\n")

        try:
            for line in pages:
                # the default action of SIGPROF ends the process even inside a parser that never
                # returns to Python, also when the parent has ended
                signal.setitimer(signal.ITIMER_PROF, limits.timeout_s)
                answer = _extract_page(extractor, json.loads(line))
                signal.setitimer(signal.ITIMER_PROF, 0)
                sender.sendall(
                    json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
                )
        except MemoryError:
            os._exit(1)


def _extract_page(extractor: Any, html: str) -> ExtractionResult:
    try:
        text = extractor.extract(prepare_page(html))
        if lenient := not text.strip():
            text = extractor.extract_leniently(html)
    except MemoryError:
        raise
    except Exception:
        return ExtractionResult("", "extractor_error")

    text = drop_references(text)
    return ExtractionResult(text, None if text.strip() else "extract_empty", lenient)
