"""Counts of the units of the stage `tasks`."""

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class SplitCounts(TypedDict, total=False):
    """Rows of a split and the examples built from them."""

    rows_in: int
    """lines of the split that hold a row or are damaged"""
    examples: int
    windows: int
    """further windows of rows that are longer than an example"""
    refused: dict[str, int]
    """rejected rows by reason"""
    tokens: int
    truncated: int
    """examples truncated to `max_length`"""
    truncated_tokens: int
    labels: dict[str, int]
    """examples, or their words, by label"""
    notes: dict[str, int]
    """further counts of the rows of a head, by name"""
    layout: dict[str, int]
    """the layout detected in the file"""


class TaskCounts(SplitCounts, Counts, total=False):
    """Counts summed over the splits, and per split."""

    splits: dict[str, SplitCounts]
    files_left: dict[str, int]
    """input files that are not a split of the task, by source name"""
