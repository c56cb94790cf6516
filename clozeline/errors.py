"""Errors that a user can correct.

Each message says what was expected, what was found, where, and what to do.

All commands share the exit codes: 0 done, 64 configuration, 65 accounting, integrity, a batch or
weights, 69 some units failed and the others were published, or code of others failed, 70 watchdog,
71 another rank was lost, 74 input or output, 75 stopped by a signal with saved state (the same
command resumes), 76 diverged, 77 out of memory.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clozeline.configuration.redaction import redact_known_secrets, redact_text

WATCHDOG: Final = 70
"""Exit code of a process that the watchdog ended."""
PEER_LOST: Final = 71
"""Exit code of a rank that lost another rank, or timed out waiting for one."""
STOPPED: Final = 75
"""Exit code after a stop request: the state is saved, and the same command resumes from it."""

# Maximum characters of a value, a line, and a message.
_VALUE_LIMIT: Final = 200
_LINE_LIMIT: Final = 1000
_MESSAGE_LIMIT: Final = 20_000
_LONG_VALUE: Final = re.compile(
    rf"""\S{{{_VALUE_LIMIT + 1},}}"""  # a long word, such as a path
    # a quoted string, which an apostrophe inside does not end
    rf"""|(?<!\w)'(?:[^'\n\\]|\\.|(?<=\w)'(?=\w)){{{_VALUE_LIMIT},}}'"""
    rf"""|(?<!\w)"(?:[^"\n\\]|\\.){{{_VALUE_LIMIT},}}\""""
    rf"""|\[[^\[\]\n]{{{_VALUE_LIMIT},}}\]|\{{[^{{}}\n]{{{_VALUE_LIMIT},}}\}}"""
)


_CONTROLS: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor or change the order of letters, and lone surrogates; not line
ends, tabs and joiners."""


def show_controls(text: str) -> str:
    r"""Return a text as terminals may print it: control characters become escapes like `\x1b`."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def message_text(text: str) -> str:
    """Return a message without secrets and control characters, and with long values shortened.

    A word, a quoted string, a list or a mapping has at most 200 characters, a line 1,000, a message
    20,000. So no message prints a document. A line with a command, `  clozeline ...`, stays whole.
    """
    text = _cut(redact_known_secrets(text), _MESSAGE_LIMIT)
    return show_controls(redact_text("\n".join(map(_cut_line, text.split("\n")))))


def _cut_line(line: str) -> str:
    """Return a line with long values shortened; a command stays whole, so that it can be copied."""
    if line.startswith("  clozeline "):
        return line
    line = _LONG_VALUE.sub(lambda match: _cut(match[0], _VALUE_LIMIT), line)
    return _cut(line, _LINE_LIMIT)


def write_note(text: str) -> None:
    """Print a note on the standard error, from one rank."""
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(message_text(f"note: {text}\n"))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = limit // 4
    return f"{text[: limit - end - 1]}…{text[-end:]}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def share_text(share: float) -> str:
    """Return a share as `12.3 %`; a small share has more digits, so that it never reads 0."""
    return f"{100 * share:.1f} %" if share >= 0.001 or not share else f"{100 * share:.2g} %"


def join_names(names: Iterable[object], limit: int = 12) -> str:
    """Return the first `limit` names in alphabetical order, and how many more there are."""
    ordered = sorted(map(str, names))
    more = f" and {len(ordered) - limit:,} more" if len(ordered) > limit else ""
    return ", ".join(ordered[:limit]) + more


class ClozelineError(Exception):
    """Base of the errors that end a command with a message, without a traceback."""

    exit_code = 1

    def __str__(self) -> str:
        return message_text(super().__str__())


class ConfigurationError(ClozelineError):
    """A configuration key, an argument or a combination of them is wrong."""

    exit_code = 64


class NewerFormatError(ClozelineError):
    """A file is intact, but needs a newer version: install a newer Clozeline."""

    exit_code = 64


class TokenizerMissingError(ConfigurationError):
    """An option holds text to encode, but the tokenizer does not exist yet."""


class IntegrityError(ClozelineError):
    """Counts do not add up, a hash differs, or a file contradicts its record."""

    exit_code = 65


class PartialFailureError(ClozelineError):
    """Some units of a stage failed; the others were published and need not be redone."""

    exit_code = 69


class StorageError(ClozelineError):
    """A file is missing, or cannot be read or written."""

    exit_code = 74


class BatchError(ClozelineError):
    """A batch lacks a tensor that the model reads, or has values out of range."""

    exit_code = 65


class WeightsError(ClozelineError):
    """Weights of a checkpoint are damaged, incomplete, inconsistent, or belong to another model."""

    exit_code = 65


class CheckpointError(IntegrityError):
    """A checkpoint is incomplete, corrupted, or belongs to another run."""


class SaveError(StorageError):
    """A checkpoint could not be written three times in a row."""


class DivergedError(ClozelineError):
    """Too many gradients in a row, the weights, or the losses at the end are not finite."""

    exit_code = 76


class OutOfMemoryError(ClozelineError):
    """The model, its optimizer state or a batch does not fit."""

    exit_code = 77


class RemoteRankError(ClozelineError):
    """An error of one rank that ends the run on all ranks, with that rank's exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NoPeersError(ClozelineError):
    """A rank found no other ranks, so it must report the error itself."""

    exit_code = PEER_LOST


@contextmanager
def reading_run(path: Path, key: str = "") -> Iterator[None]:
    """Add a remedy to the error of an unreadable config.yaml of a run.

    `key` is the configuration key that names the run.
    """
    try:
        yield
    except ConfigurationError as error:
        location = "" if str(path) in str(error) else f"{path}: "
        raise ConfigurationError(
            f"{key}{location}{error}\nif this file has changed since the start, copy it back, or "
            "start the run again with its original configuration"
        ) from error


class StreamError(ClozelineError):
    """The stream was used after it was closed, or in a process forked from its owner."""


class StateMismatch(ConfigurationError):
    """A saved position belongs to another stream.

    `field` has the value `saved` in the state, but `current` in this stream.
    """

    def __init__(self, field: str, saved: object, current: object) -> None:
        super().__init__(
            f"stream state: {field} was saved as {saved!r}, this run has {current!r}; continue "
            "with the saved one, or start in an empty output folder"
        )
        self.field = field
        self.saved = saved
        self.current = current

    def __reduce__(self) -> tuple[type[StateMismatch], tuple[str, object, object]]:
        return (StateMismatch, (self.field, self.saved, self.current))
