"""Reject documents with too many capital letters."""

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import ThresholdFilter, at_most


def share_of_capitals(text):
    """Return the share of capitals among the letters of a text."""
    letters = [letter for letter in text if letter.isalpha()]
    return sum(map(str.isupper, letters)) / max(1, len(letters))


class Shouting(ThresholdFilter):
    """Reject documents with too many capital letters."""

    VERSION = 1
    reasons = ("shouting",)

    @config_class
    class Options:
        share: float = 0.5
        """maximum share of capitals among letters"""

    def __init__(self, options):
        self._share = options.share

    def measure(self, document, statistics):
        yield at_most("shouting", share_of_capitals(document.text), self._share)
