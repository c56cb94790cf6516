"""Split sentences at newlines, for corpora with one sentence per line."""

import re
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.sentences import SentenceSplitter

_LINE_END: Final = re.compile(r"\n\s*+")


class Lines(SentenceSplitter):
    r"""Splits at every newline; empty lines and spaces between two lines belong to the line before.

    Example:
        "One.\nTwo. Three.\n\nFour" starts at 0, 5 and 18.
    """

    VERSION = 1

    @config_class
    class Options:
        """This splitter has no options."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def starts(self, text: str, language: str) -> list[int]:
        first = len(text) - len(text.lstrip())
        last = len(text.rstrip())
        return (
            [0, *(match.end() for match in _LINE_END.finditer(text, first, last))] if text else []
        )
