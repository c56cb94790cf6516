"""Counts that the units of `decontaminate` record."""

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class SuiteCounts(TypedDict, total=False):
    """Counts of an evaluation suite."""

    items: int
    unreadable: int  # rows without a text: damaged or empty
    too_short: int  # items without a text of five words, which cannot be found
    words: int  # of all items that can be found
    overlap_words: int  # those in runs that documents hold
    contaminated: int  # items of which a document holds a run
    documents: int  # documents that hold a run of an item


class DecontaminateCounts(Counts, total=False):
    """Counts of a unit of `decontaminate`."""

    entries: dict[str, int]  # runs in the index: `full` of n words, `short` of shorter texts, `too_frequent` ignored
    suites: dict[str, SuiteCounts]
    compared: int  # documents that were looked up
    contaminated_documents: int  # of these with a run that is not too frequent
    matches: dict[str, int]  # pairs of documents and runs: `found`, `counted`, and for the action `taken`, `ignored`
    rejected: dict[str, int]
    characters_in: int
    characters_out: int
    characters_removed: dict[str, int]
