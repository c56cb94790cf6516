"""Splits carved from the rows of another one, such that no two of them share a text or a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from clozeline.pipeline.tasks.readers import Rejected, TaskItem
from clozeline.seeding import hash64

_WORDS: Final = 1 << 64
_NUMBERED: Final = re.compile(r"(?:document|article|passage) [0-9]+")
"""Documents that their file does not name; another file has one of the same number."""


def split_by_group(items: Sequence[TaskItem | Rejected], shares: Mapping[str, float], own: str, seed: int) -> list[str]:
    """Return the split of each row: one of `shares`, or `own` for the rest.

    Rows of one document go together. Where a file names no documents, rows that share a text do, and those that share
    one with them, in all steps: sentences recur in many tasks, and a model would be asked what it has learnt. The parts
    are dealt by a hash of their documents or texts, so shares are reached about, and a row that is added moves no other
    one but those that it joins. Refused rows stay in `own`.

    Args:
        items: all rows of the file.
        shares: split to its share of the rows, in all below 1.
        own: split of the rest.
        seed: of the recipe.
    """
    parents: dict[str, str] = {}
    keys = [[] if isinstance(item, Rejected) else _keys(item) for item in items]
    for row in keys:
        for key in row:
            _join(parents, row[0], key)
    return [_split(_root(parents, row[0]), shares, own, seed) if row else own for row in keys]


def exclude_overlaps(items: Iterable[TaskItem | Rejected], others: Iterable[TaskItem]) -> list[TaskItem | Rejected]:
    """Return the rows, those that share a document or a text with other ones refused as `excluded`."""
    known = {key for item in others for key in overlap_keys(item)}
    found: list[TaskItem | Rejected] = []
    for item in items:
        shared = not isinstance(item, Rejected) and not known.isdisjoint(overlap_keys(item))
        found.append(Rejected("excluded", item.index) if shared else item)
    return found


def overlap_keys(item: TaskItem) -> list[str]:
    """Return the texts of a row, and the document that its file names, by which rows of other files share them."""
    named = item.group is not None and not _NUMBERED.fullmatch(item.group)
    return [*([f"document {item.group}"] if named else []), *map(_text_key, item.overlap_texts)]


def _keys(item: TaskItem) -> list[str]:
    return [f"document {item.group}"] if item.group is not None else [_text_key(text) for text in item.overlap_texts]


def _text_key(text: str) -> str:
    return f"text {' '.join(text.lower().split())}"


def _root(parents: dict[str, str], key: str) -> str:
    """Return the first key, in their order, of those that are joined with one."""
    while (above := parents.get(key, key)) != key:
        parents[key] = parents.get(above, above)
        key = above
    return key


def _join(parents: dict[str, str], one: str, other: str) -> None:
    first, second = sorted((_root(parents, one), _root(parents, other)))
    parents[second] = first


def _split(key: str, shares: Mapping[str, float], own: str, seed: int) -> str:
    index = hash64("carve", seed, key) / _WORDS
    for name, share in shares.items():
        if index < share:
            return name
        index -= share
    return own
