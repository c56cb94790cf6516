"""Split texts of scripts without sentence marks, such as Thai and Lao, into phrases."""

import re

from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.text.sentences import SentenceSplitter


class Phrases(SentenceSplitter):
    """Splits at every newline, after `?` and `!`, and at a blank if the phrase is long enough.

    Thai and Lao put blanks between phrases and do not mark the ends of statements. Splitting at
    every blank gives pieces that are far too short. They also put blanks around numbers and before
    the sign of repetition, so that no phrase is cut there. Phrases are not sentences:
    objectives on pairs or orders of sentences learn less from them.

    Example:
        With `characters: 6`, "abc de fgh ij" starts at 0 and 7.
    """

    VERSION = 2

    @config_class
    class Options:
        characters: Positive = 40
        """minimum characters of a phrase that ends at a blank"""

    def __init__(self, options: Options) -> None:
        self.options = options
        # A short line is one phrase. Newlines always end a phrase, whose last character is not a
        # blank.
        least = options.characters
        self._phrase = re.compile(
            rf"\s*+(?:[^\n]{{1,{least}}}?[?!…](?=\s)"
            rf"|[^\n]{{{least},}}?(?<=[^\s\d])(?=\s++(?![\dๆໆ]))|[^\n]+)\s*+"
        )

    def starts(self, text: str, language: str) -> list[int]:
        """Return the character offset of each phrase; the language does not matter."""
        if not text:
            return []
        end = len(text.rstrip())
        return [
            0,
            *(match.start() for match in self._phrase.finditer(text, 0, end) if match.start()),
        ]

    def splits_phrases(self, language: str) -> bool:
        return True
