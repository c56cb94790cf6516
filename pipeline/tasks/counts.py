"""The counts of the units of `tasks`."""

from __future__ import annotations

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class SplitCounts(TypedDict, total=False):
    """Rows of a file, and the examples made of them."""

    rows_in: int
    """lines of the file that hold a row, or are damaged"""
    rows_read: int
    """rows of the file, before any is dealt to another split; earlier versions did not count them"""
    rows_elsewhere: int
    """those of them that other splits carve from the file"""
    examples: int
    windows: int
    """examples beyond the first of a row that is longer than an example"""
    refused: dict[str, int]
    """rows that gave no example, by reason"""
    tokens: int
    truncated: int
    """examples whose texts were shortened to `max_length`"""
    truncated_tokens: int
    """tokens that they lost"""
    labels: dict[str, int]
    """examples, or their words, of each class"""
    notes: dict[str, int]
    """further counts of the rows of a head, by name"""
    layout: dict[str, int]
    """the layout that the file was found to have"""


class TaskCounts(SplitCounts, Counts, total=False):
    """Counts of units of `tasks`: sums over all splits, and each split."""

    splits: dict[str, SplitCounts]
    files_left: dict[str, int]
    """files of the input that are no split of the task, by source name"""
