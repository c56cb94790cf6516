"""Errors that a user can correct. Each message says what was expected, what was found, where, and what to do.

The exit codes are one table for all commands: 0 done, 64 configuration, 65 accounting or integrity, 69 some units
failed and the others were published, 74 input or output.
"""

from __future__ import annotations

import re
from typing import Final

from clozeline.configuration.redaction import redacted_text, without_remembered

_VALUE: Final = 200
_LINE: Final = 1000
_MESSAGE: Final = 20_000
_LONG_VALUE: Final = re.compile(
    rf"""\S{{{_VALUE + 1},}}"""  # a path, say
    rf"""|(?<!\w)'(?:[^'\n\\]|\\.|(?<=\w)'(?=\w)){{{_VALUE},}}'"""  # a text; an apostrophe inside does not end it
    rf"""|(?<!\w)"(?:[^"\n\\]|\\.){{{_VALUE},}}\""""
    rf"""|\[[^\[\]\n]{{{_VALUE},}}\]|\{{[^{{}}\n]{{{_VALUE},}}\}}"""
)


def message_text(text: str) -> str:
    """Return a text as every message shows it: without secrets, and with long values cut.

    A word, a quoted text, a list or a mapping has at most 200 characters, a line 1,000, the whole 20,000. So no message
    prints a document.
    """
    text = _cut(without_remembered(text), _MESSAGE)
    text = _LONG_VALUE.sub(lambda found: _cut(found[0], _VALUE), text)
    return redacted_text("\n".join(_cut(line, _LINE) for line in text.split("\n")))


def _cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: its beginning and its end, such as the name of a file."""
    if len(text) <= limit:
        return text
    end = limit // 4
    return f"{text[: limit - end - 1]}…{text[-end:]}"


class ClozelineError(Exception):
    """Root of every error that ends a command with a message instead of a traceback; see `message_text`."""

    exit_code = 1

    def __str__(self) -> str:
        return message_text(super().__str__())


class ConfigurationError(ClozelineError):
    """A configuration key, an argument or a combination of them is wrong."""

    exit_code = 64


class NewerFormatError(ClozelineError):
    """A file is whole, but of a later format than this version reads: another version is to be installed."""

    exit_code = 64


class TokenizerMissingError(ConfigurationError):
    """An option has a text to encode, but the tokenizer does not exist yet."""


class IntegrityError(ClozelineError):
    """Counts do not add up, a hash differs, or a file is not what its record says."""

    exit_code = 65


class PartialFailureError(ClozelineError):
    """Some units of a stage failed; the others were published and need not be redone."""

    exit_code = 69


class StorageError(ClozelineError):
    """A file is missing, or cannot be read or written."""

    exit_code = 74
