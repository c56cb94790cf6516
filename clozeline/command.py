"""Shared parts of the command lines: parser, console, list of keys, and errors as messages with exit codes."""

import argparse
import difflib
import itertools
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from types import FrameType
from typing import Any, Final, Literal, NoReturn, TextIO, TypeAlias

from clozeline.configuration.described_keys import describe
from clozeline.configuration.paths import refusal_of_special
from clozeline.configuration.words_elsewhere import translate_key
from clozeline.errors import ClozelineError, ConfigurationError, message_text, show_controls
from clozeline.process import READER_GONE, STOPS, ReaderGone, catch, guard_streams
from clozeline.registry import Registry, options_of
from clozeline.repair import explain_error

LOG_COLUMNS: Final = 80
"""Width of what pipeline and trainer print while they run."""
_HELP_LINES: Final = re.compile(r"(.{1,120}|\S+)(?:$|(?<= )|(?= )) ?")
"""Lines of at most 120 columns, cut at spaces; a longer word is a line of its own."""
Detail: TypeAlias = Literal["quiet", "usual", "verbose"]
"""Amount of lines that a run prints: `quiet` only errors, `verbose` a line for whatever is done."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are configuration errors: one message, exit code 64.

    What takes a value is a key, `output=DIR`, and what takes none is a switch, `--strict`.
    `--output DIR` is accepted for a key, an option or a setting, and `strict=true` for a switch.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": KeysHelp, "allow_abbrev": False, **settings})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: object = None
    ) -> tuple[object, list[str]]:
        """Refuse a word that is not UTF-8, such as the path of a file whose name is in another encoding."""
        words = list(sys.argv[1:] if args is None else args)
        for word in words:
            if any("\ud800" <= letter <= "\udfff" for letter in word):
                raise ConfigurationError(
                    f"argument {word!r}: expected UTF-8; rename the file or folder"
                )
            if (refusal := refusal_of_special(word.partition("=")[2] or word)) is not None:
                raise ConfigurationError(f"argument {refusal}")
        end = words.index("--") if "--" in words else len(words)
        return super().parse_known_args([*self._in_own_style(words[:end]), *words[end:]], namespace)

    def _in_own_style(self, words: Sequence[str]) -> Iterator[str]:
        """Yield words with keys of this parser as options; then options that it lacks, as `key=value`."""
        takes_settings = any(action.metavar == "key=value" for action in self._actions)
        rest = iter(words)
        settings = []
        for word in rest:
            name, equals, value = word.partition("=")
            action = (
                self._option_string_actions.get(f"--{name.replace('_', '-')}") if equals else None
            )
            if word in self._option_string_actions or not word.startswith("--"):
                if action is None:
                    yield word
                elif action.nargs != 0:
                    yield f"{action.option_strings[-1]}={value}"
                elif value == "true":
                    yield action.option_strings[-1]
                elif value != "false":
                    self.error(f"{name}: expected true or false, got '{value}'")
            elif name in self._option_string_actions or not takes_settings:
                yield word
            elif equals:
                settings.append(f"{_key(name)}={value}")
            elif (following := next(rest, None)) is not None and not following.startswith("--"):
                settings.append(f"{_key(name)}={following}")
            else:
                near = difflib.get_close_matches(name, self._option_string_actions, n=1)
                spelled = (
                    f"did you mean '{near[0]}'?" if near else f"keys are written {_key(name)}=VALUE"
                )
                hint = (
                    translate_key(
                        _key(name), [_key(option) for option in self._option_string_actions]
                    )
                    or spelled
                )
                raise ConfigurationError(f"{name}: no such option; {hint}; see --help")
        yield from settings

    def error(self, message: str) -> NoReturn:
        """Raise the message as a ConfigurationError, with keys as they are written."""
        for action in self._actions:
            if option := _option_of_key(action):
                message = re.sub(rf"(?<!\S){option}(?![\w-])", _key(option), message)
        raise ConfigurationError(f"{message}; see --help")


def _key(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _option_of_key(action: argparse.Action) -> str | None:
    """Return the option of an action that takes a value and is written `key=value`; `--config FILE` is not."""
    is_key = action.nargs != 0 and action.option_strings and action.option_strings[-1] != "--config"
    return action.option_strings[-1] if is_key else None


class KeysHelp(argparse.RawDescriptionHelpFormatter):
    """Help that shows an option with a value as `key=VALUE`."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: Any = None
    ) -> None:
        """Show positional words, required keys and switches, and other keys as one word."""
        shown = [action for action in actions if action.help is not argparse.SUPPRESS]
        words = [
            self._metavar(action)
            for action in shown
            if not action.option_strings and action.metavar != "key=value"
        ]
        words += [
            self._format_action_invocation(a) for a in shown if _option_of_key(a) and a.required
        ]
        switches = [
            a for a in shown if a.option_strings and not _option_of_key(a) and a.dest != "help"
        ]
        words += [f"[{self._format_action_invocation(action)}]" for action in switches]
        if any(
            action.metavar == "key=value" or (_option_of_key(action) and not action.required)
            for action in shown
        ):
            words.append("[key=value ...]")
        super().add_usage(usage or " ".join(["%(prog)s", *words]), (), groups, prefix)

    def _metavar(self, action: argparse.Action) -> str:
        return self._format_args(action, self._get_default_metavar_for_positional(action))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if option := _option_of_key(action):
            return f"{_key(option)}={self._metavar_formatter(action, _key(option).upper())(1)[0]}"
        return super()._format_action_invocation(action)


def add_detail_options(parser: argparse.ArgumentParser, quiet: str, verbose: str) -> None:
    """Add `--quiet` and `--verbose`, of which one may be given, with these texts in `--help`."""
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--quiet", dest="detail", action="store_const", const="quiet", default="usual", help=quiet
    )
    amount.add_argument(
        "--verbose", dest="detail", action="store_const", const="verbose", help=verbose
    )


def wrap_log(text: str) -> str:
    """Return a message in lines of at most 80 columns, aligned below the first word after its label.

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


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether an option among the words of a command line is `--help`; after `--` they are no options."""
    options = itertools.takewhile("--".__ne__, words)
    return not {"-h", "--help"}.isdisjoint(options)


def keys_of(
    schema: type, algorithms: Iterable[tuple[str, str, Registry[object]]] = ()
) -> Iterator[tuple[str, str, str, str]]:
    """Yield every key of a configuration as `describe` does, then the options of algorithms that it names.

    `algorithms` are (key, word that chooses, registry): `("optimizer", "name", OPTIMIZERS)`. An
    option that several algorithms describe alike is one entry with their names.
    """
    common = [*describe(schema)]
    yield from common
    for key, word, registry in algorithms:
        readers: dict[tuple[str, str, str, str], list[str]] = {}
        for name in registry.available():
            for described in describe(options_of(registry.load_class(name))):
                readers.setdefault(described, []).append(name)
        for (option, kind, default, text), chosen in readers.items():
            if (f"{key}.{option}", kind, default, text) not in common:
                yield f"{key}.{option} ({word}: {', '.join(chosen)})", kind, default, text


def print_keys(keys: Iterable[tuple[str, str, str, str]]) -> None:
    """Print the keys of a configuration, as `describe` yields them."""
    lines = ["", "keys of the configuration (key: type = default: meaning):"]
    for key, kind, default, text in keys:
        shown = f" = {default}" if default else ""
        lines += _HELP_LINES.findall(f"  {key}: {kind}{shown}: {text}")
    sys.stdout.write("\n".join(lines) + "\n")


class Stopped(KeyboardInterrupt):
    """Raised on a termination signal of a system or scheduler: handled like Ctrl-C, with exit code 75."""


@contextmanager
def stopping_at_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread at the first signal of `STOPS`; what the block started is ended.

    Later ones are the same request: a lost connection sends SIGHUP twice, and a warning precedes
    SIGTERM.
    """
    known = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal known
        if not known:
            known = True
            raise Stopped

    handlers = catch(STOPS, stop)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


_KEPT: Final = "interrupted: finished units are kept, run the same command again to continue"


class _ShownOutput:
    """Standard output on a terminal: texts of documents, files and labels reach it without control characters.

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
    action: Callable[[], int], interrupted: str = _KEPT, *, prints: bool = False
) -> int:
    """Run a command, and print errors of the user as one message with an exit code, without a traceback.

    A command that `prints` its result ends where it cannot print; the work of any other one goes on
    without messages.
    """
    guard_streams(result=prints)
    try:
        with redirect_stdout(_ShownOutput(sys.stdout)) if sys.stdout.isatty() else nullcontext():
            code = action()
        sys.stdout.flush()
    except ReaderGone:
        return READER_GONE
    except ClozelineError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(message_text(f"error: {explain_error(error)}\n"))
        return 74
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"{interrupted}\n")
        return 75 if isinstance(stop, Stopped) else 130
    except Exception:
        sys.stderr.write(message_text(traceback.format_exc()))
        sys.stderr.write(
            "this is a mistake in Clozeline, not in your configuration: please report the lines "
            "above\n"
        )
        return 1
    finally:
        guard_streams()  # Python flushes what is left
    return code
