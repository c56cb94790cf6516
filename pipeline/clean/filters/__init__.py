"""Filters: each returns a verdict per document, from shared text statistics.

Reports rely on the names of their reasons. What every filter is written with is imported from here.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import xxhash

from clozeline.arrays import UInt64
from clozeline.configuration.config import NoOptions
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import Document as Document
from clozeline.pipeline.text.text_statistics import TextStatistics as TextStatistics


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a filter on a document."""

    reason: str = ""
    """why the document is rejected; empty if it is kept"""
    detail: str = ""
    """the value and its threshold"""
    text: str | None = None
    """the edited text; None without an edit"""
    removed: Mapping[str, int] = field(default_factory=dict)
    """characters removed by the edit, by rule"""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """entries that are added to `extra` of the document"""
    flags: int = 0
    """bits that are set in `flags` of the document"""
    note: str = ""
    """event that the report counts, without a rejection"""


KEEP: Final = Verdict()


class Filter(ABC):
    """Base class of filters; equal documents get equal verdicts.

    A filter with options has a nested dataclass `Options`.
    """

    VERSION: ClassVar[int]
    """raised when the verdict or the edited text of any document changes"""
    reasons: ClassVar[tuple[str, ...]] = ()
    """why it rejects documents; reports rely on these names"""
    has_further_reasons: ClassVar[bool] = False
    """true if a library gives reasons that are not known before"""
    thresholds: ClassVar[Mapping[str, str]] = {}
    """the option that each reason compares with, for reports; other reasons have no option"""
    before_extraction: ClassVar[bool] = False
    """true to judge before the text is extracted, by URL, date or source: documents have no text,
    and the page of a rejected document is never parsed"""
    Options: ClassVar[Any] = NoOptions

    label: str = ""
    """name in counts of edits and cuts; empty: the name in the recipe"""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict on a document.

        Args:
            document: the text in stored form with its metadata: language, URL, host, date, source,
                and other columns of the record in `extra`, such as a score or a license.
            statistics: statistics of the text; each is computed once for all filters, on first use.
        """


Measure: TypeAlias = tuple[str, float, float, float, str]
"""Reason, value, minimum and maximum of a rule, and the format of the value in messages."""


class ThresholdFilter(Filter):
    """Base class of filters that compare measures of the text with thresholds.

    The first rule that fails is the reason. The reasons are those of `thresholds`, unless a class
    names its own.
    """

    def __init_subclass__(cls) -> None:
        cls.reasons = vars(cls).get("reasons", tuple(cls.thresholds))

    @abstractmethod
    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the measures in the order of the rules, cheapest first."""

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict of the first rule that fails."""
        for reason, value, minimum, maximum, shown in self.measure(document, statistics):
            if value < minimum:
                return Verdict(reason, f"{shown.format(value)} < {minimum}")
            if value > maximum:
                return Verdict(reason, f"{shown.format(value)} > {maximum}")
        return KEEP


def at_most(reason: str, value: float, maximum: float, shown: str = "{:.3f}") -> Measure:
    """Return a measure with a maximum."""
    return reason, value, -math.inf, maximum, shown


def at_least(reason: str, value: float, minimum: float, shown: str = "{:.3f}") -> Measure:
    """Return a measure with a minimum."""
    return reason, value, minimum, math.inf, shown


DATA_FILE: Final = {"data_file": True}
"""Metadata of an option that names files or folders whose content affects verdicts."""


def list_data_files(options: Any) -> list[Path]:
    """Return the files and folders that options name.

    Raises:
        ConfigurationError: one cannot be read.
    """
    paths = list[Path]()
    for option in fields(options):
        value = getattr(options, option.name) if option.metadata.get("data_file") else None
        paths += map(Path, value if isinstance(value, list) else [] if value is None else [value])

    for path in paths:
        if not os.access(path, os.R_OK):
            reason = "no permission" if path.exists() else "no such file or directory"
            raise ConfigurationError(f"{path}: cannot be read ({reason}); give the path of a file")
    return paths


def read_terms(path: Path) -> Iterator[str]:
    """Yield the terms of a file, one per line, without comments; fail if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                if (term := line.strip()) and not term.startswith("#"):
                    yield term
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: cannot be read as a UTF-8 list with one term per line: {error}"
        ) from error


class HashedTerms:
    """A set of strings as sorted hashes of 8 bytes, shared within a process."""

    def __init__(self, paths: Sequence[Path], normalize: Callable[[str], str] = str.lower) -> None:
        self._hashes = [_hash_terms(path, normalize, _file_state(path)) for path in paths]

    def contains_any(self, terms: Sequence[str]) -> bool:
        """Return whether one of the terms is in the set."""
        keys = np.array(
            [xxhash.xxh3_64_intdigest(term.encode()) for term in terms], dtype=np.uint64
        )
        return any(
            bool((np.searchsorted(known, keys, "right") > np.searchsorted(known, keys)).any())
            for known in self._hashes
        )


def _file_state(path: Path) -> tuple[int, int]:
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0)


@lru_cache(maxsize=16)
def _hash_terms(path: Path, normalize: Callable[[str], str], changed: tuple[int, int]) -> UInt64:
    hashes = (xxhash.xxh3_64_intdigest(normalize(term).encode()) for term in read_terms(path))
    array = np.fromiter(hashes, dtype=np.uint64)
    array.sort()
    return array
