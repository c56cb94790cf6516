"""The counts of the units of `corrupt`."""

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class ReadCounts(TypedDict):
    """Samples of a set and their tokens, counted where they are read."""

    samples: int
    tokens: int


class RowCounts(TypedDict, total=False):
    """Samples and the examples made of them. An objective may count more."""

    samples_in: int
    examples: int
    skipped: dict[str, int]
    """samples that gave no example, by reason"""
    unused_tokens: int
    """tokens of samples that are in no example"""
    overmasked: int
    """examples whose labels exceed half of their content, though the masking rate asks for less"""
    tokens: int


class SetCounts(RowCounts, total=False):
    """Counts of one split of an example set."""

    by_language: dict[str, int]
    """tokens by the language of the row's first document"""
    read: dict[str, ReadCounts]
    """by label of the sample set; of each variant"""


class CorruptCounts(RowCounts, Counts, total=False):
    """Counts of units of `corrupt`: sums over all sets, and each set by label and split."""

    objectives: dict[str, dict[str, SetCounts]]
