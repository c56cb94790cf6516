"""A minimum of characters, as in SlimPajama."""

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from clozeline.configuration.config import Natural, config_class
from clozeline.pipeline.clean.filters import (
    Document,
    Measure,
    TextStatistics,
    ThresholdFilter,
    at_least,
)

_MARKS: Final = re.compile(r"[!-/:-@\[-`{-~]+")


class Length(ThresholdFilter):
    """Rejects texts with few characters; marks of ASCII do not count, and a run of blanks is one.

    "Home | News | 2" -> rejected as `characters`: 11 of at least 200
    """

    VERSION = 1
    thresholds: ClassVar[Mapping[str, str]] = {"characters": "characters"}

    @config_class
    class Options:
        characters: Natural = 200
        """minimum number of characters (SlimPajama: 200)"""

    def __init__(self, options: Options) -> None:
        self._options = options

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the number of characters."""
        text = " ".join(_MARKS.sub("", statistics.text).split())
        yield at_least("characters", len(text), self._options.characters)
