"""Split the rows of a file into train, dev and test such that no two splits share a text or a document."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from clozeline.pipeline.kernels.ngram_index import Matcher, build_index
from clozeline.pipeline.tasks.readers import Rejected, TaskItem
from clozeline.seeding import hash64

_HASHES: Final = 1 << 64
_NUMBERED: Final = re.compile(r"(?:document|article|passage) [0-9]+")
"""Documents without a name: the same number in another file is another document."""


def split_by_group(items: Sequence[TaskItem | Rejected], shares: Mapping[str, float], own: str, seed: int) -> list[str]:
    """Return the split of each row: one of `shares`, or `own` for the rest.

    Rows of one document stay together. In files without document names, rows that share a text do, transitively:
    sentences recur in many tasks and would leak from train to test. Each group is assigned by a hash, so the shares are
    approximate, and adding a row moves only the rows that it joins. Rejected rows stay in `own`.
    """
    parents: dict[str, str] = {}
    keys: list[list[str]] = []
    for item in items:
        if isinstance(item, Rejected):
            keys.append([])
        else:
            keys.append([f"document {item.group}"] if item.group is not None else [*map(_text_key, item.overlap_texts)])
    # union-find over documents and texts; the smallest key is the root of its group
    for row in keys:
        for key in row:
            first, second = sorted((_root(parents, row[0]), _root(parents, key)))
            parents[second] = first
    return [_draw_split(_root(parents, row[0]), shares, own, seed) if row else own for row in keys]


def exclude_overlaps(
    items: Iterable[TaskItem | Rejected], others: Iterable[TaskItem], ngram: int | None = None
) -> list[TaskItem | Rejected]:
    """Reject rows, as `excluded`, that share a document or a text with `others`; return all.

    With `ngram`, also rows that hold so many consecutive words of a text of `others`, or a complete shorter text.
    """
    rows, refused = list(items), list(others)
    known = {key for item in refused for key in overlap_keys(item)}
    held = set[int]() if ngram is None else _rows_with_runs(rows, refused, ngram)
    kept: list[TaskItem | Rejected] = []
    for number, item in enumerate(rows):
        overlaps = not isinstance(item, Rejected) and not known.isdisjoint(overlap_keys(item))
        kept.append(Rejected("excluded", item.index) if overlaps or number in held else item)
    return kept


def _rows_with_runs(rows: Sequence[TaskItem | Rejected], others: Sequence[TaskItem], ngram: int) -> set[int]:
    """Return the rows that hold `ngram` consecutive words of a text of `others`, or a complete shorter text."""
    matcher = Matcher(build_index((("", item.overlap_texts) for item in others), ngram))
    return {
        number
        for number, item in enumerate(rows)
        if not isinstance(item, Rejected) and any(matcher.find(text) for text in item.overlap_texts)
    }


def overlap_keys(item: TaskItem) -> list[str]:
    """Return the keys by which two files share a row: its texts, and its document if the file names it."""
    has_name = item.group is not None and not _NUMBERED.fullmatch(item.group)
    return [*([f"document {item.group}"] if has_name else []), *map(_text_key, item.overlap_texts)]


def _text_key(text: str) -> str:
    return f"text {' '.join(text.lower().split())}"


def _root(parents: dict[str, str], key: str) -> str:
    while (above := parents.get(key, key)) != key:
        parents[key] = parents.get(above, above)
        key = above
    return key


def _draw_split(key: str, shares: Mapping[str, float], own: str, seed: int) -> str:
    draw = hash64("carve", seed, key) / _HASHES
    for name, share in shares.items():
        if draw < share:
            return name
        draw -= share
    return own
