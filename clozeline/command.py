"""Shared parts of the commands: log lines, lists of keys, errors, and exit codes."""

import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from types import FrameType
from typing import Any, Final, Literal, TextIO, TypeAlias

from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import DescribedKey, describe
from clozeline.errors import ConfigurationError, message_text, show_controls
from clozeline.foreign_code import explain_environment
from clozeline.process import READER_GONE, STOPS, ReaderGone, catch, guard_streams
from clozeline.registry import Registry, options_of, skipping_broken
from clozeline.repair import explain

LOG_COLUMNS: Final = 80
"""Width in columns of the lines that pipeline and trainer print while they run."""
Detail: TypeAlias = Literal["quiet", "usual", "verbose"]
"""Amount of lines that a run prints: `quiet` only errors, `verbose` a line for whatever is done."""


@config_class
class DetailOptions:
    """How much a run prints."""

    quiet: bool = False
    """print errors alone"""
    verbose: bool = False
    """print a line for whatever is done, not only now and then"""

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise ValueError("expected --quiet or --verbose, one of them")

    @property
    def detail(self) -> Detail:
        """Amount of lines that a run prints."""
        return "quiet" if self.quiet else "verbose" if self.verbose else "usual"


def wrap_log(text: str) -> str:
    """Return a message in lines of at most 80 columns.

    Lines are aligned below the first word after its label.

    A word is never broken, and neither is a command on a line of its own or `report: PATH`: they
    can be copied.
    """
    lines = []
    for line in text.split("\n"):
        label = re.match(r" *(?:[\w-]+ {2,}|arithmetic )?", line)
        indent = " " * max(2, len(label[0]) if label else 0)
        wrapper = textwrap.TextWrapper(
            LOG_COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        copied = line.startswith("  clozeline ") or len(line.split()) <= 2
        lines += [line] if copied else wrapper.wrap(line)
    return "\n".join(lines)


def program_name(otherwise: str) -> str:
    """Return the name of this program in its help: `clozeline COMMAND` where it was started so."""
    return sys.argv[0] if sys.argv[0].startswith("clozeline ") else otherwise


def keys_of(
    schema: type,
    algorithms: Iterable[tuple[str, str, Registry[object]]] = (),
    only: str | None = None,
) -> Iterator[DescribedKey]:
    """Yield every key of a configuration, then the options of its algorithms, as `describe` does.

    `algorithms` are (key of the algorithm, word under it with the name, registry):
    `("optimizer", "name", OPTIMIZERS)`. An option that several algorithms describe alike is one
    entry with the names of these algorithms. `only` is the one key of the schema that is described,
    with all keys below it: no other part and no other algorithm is imported.
    """
    common = [*describe(schema, only=only)]
    yield from common
    for key, word, registry in algorithms:
        if only not in (None, key.partition(".")[0]):
            continue
        readers: dict[DescribedKey, list[str]] = {}
        for name, algorithm in registry.classes().items():
            with skipping_broken():
                for described in describe(options_of(algorithm)):
                    readers.setdefault(described, []).append(name)
        for (option, kind, default, text), chosen in readers.items():
            if DescribedKey(f"{key}.{option}", kind, default, text) not in common:
                shown = f"{key}.{option} ({word}: {', '.join(chosen)})"
                yield DescribedKey(shown, kind, default, text)


class Stopped(KeyboardInterrupt):
    """Raised on a termination signal of a system or scheduler.

    It is handled like Ctrl-C, with exit code 75.
    """


@contextmanager
def stopping_at_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread at the first signal of `STOPS`.

    Later signals are ignored, because they repeat the request: a lost connection sends SIGHUP
    twice, and a warning signal precedes SIGTERM.
    """
    is_requested = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if not is_requested:
            is_requested = True
            raise Stopped

    handlers = catch(STOPS, stop)

    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


_INTERRUPTED_MESSAGE: Final = (
    "interrupted: finished units are kept, run the same command again to continue"
)


class _ShownOutput:
    """Standard output on a terminal, without control characters.

    Texts of documents, names of files and labels may hold such characters.

    `rich`, whose styles are control characters, finds the terminal itself by `rich_proxied_file`;
    see `Terminal`.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(show_controls(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def run_command(
    action: Callable[[], int], interrupted: str = _INTERRUPTED_MESSAGE, *, prints: bool = False
) -> int:
    """Run a command, and print errors of the user as one message with an exit code.

    No traceback is shown.

    A command that `prints` its result ends as soon as nobody reads the output. Any other command
    goes on without messages.
    """
    guard_streams(result=prints)

    try:
        with redirect_stdout(_ShownOutput(sys.stdout)) if sys.stdout.isatty() else nullcontext():
            code = action()
        sys.stdout.flush()
    except ReaderGone:
        return READER_GONE
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"{interrupted}\n")
        return 75 if isinstance(stop, Stopped) else 130
    except BaseException as error:  # code of others may exit, and libraries panic
        code, message = explain(error)
        if not message and (message := explain_environment(error)):
            code = ConfigurationError.exit_code
        sys.stderr.write(
            f"error: {message}\n"
            if message
            else f"{message_text(traceback.format_exc())}this is a mistake in Clozeline, not in "
            "your configuration: please report the lines above\n"
        )
    finally:
        guard_streams()  # Python flushes what is left

    return code
