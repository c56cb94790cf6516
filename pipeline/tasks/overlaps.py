"""Compare splits by texts and documents: take a share of train, reject what another file holds, count flaws."""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Final

from clozeline.pipeline.tasks.readers import Choices, LabeledText, Question, Rejected, TaggedWords, TaskItem
from clozeline.seeding import hash64

_HASHES: Final = 1 << 64
_NUMBERED: Final = re.compile(r"(?:document|article|passage) [0-9]+")
"""Documents without a name: the same number in another file is another document."""
SHOWN_NOTES: Final = (
    "also_in_train", "contradicting", "repeated_id", "questions_without_window", "words_without_tokens", "targets_cut",
    "answers_without_source",
)  # fmt: skip
"""Notes of a split shown in the report of the stage."""


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


def exclude_overlaps(items: Iterable[TaskItem | Rejected], others: Iterable[TaskItem]) -> list[TaskItem | Rejected]:
    """Reject rows, as `excluded`, that share a document or a text with `others`; return all."""
    known = {key for item in others for key in overlap_keys(item)}
    return [
        item if isinstance(item, Rejected) or known.isdisjoint(overlap_keys(item)) else Rejected("excluded", item.index)
        for item in items
    ]


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


def keys_of(items: Iterable[TaskItem | Rejected]) -> set[str]:
    """Return the keys by which `check_rows` detects these rows in another split."""
    return {key for item in items if not isinstance(item, Rejected) for key in overlap_keys(item)}


def check_rows(items: Sequence[TaskItem | Rejected], training: Set[str] | None) -> dict[str, int]:
    """Return how many rows of a split have each flaw, including flaws with no row.

    - `also_in_train`: share a document or a text with a training row (`tasks.disjoint` rejects them).
    - `contradicting`: have a text that the split also holds with another label.
    - `repeated_id`: questions with the id of an earlier one.

    `training` are `keys_of` the training rows; None if the split is one of them.
    """
    rows = [item for item in items if not isinstance(item, Rejected)]
    if not rows:
        return {}
    flaws = {}
    if training is not None:
        flaws["also_in_train"] = sum(not training.isdisjoint(overlap_keys(item)) for item in rows)
    labels: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    for item in rows:
        match item:  # rows with a single correct label
            case LabeledText():
                labels[tuple(" ".join(text.split()) for text in item.texts)][item.label, item.target, item.classes] += 1
            case TaggedWords():
                labels[item.words][item.tags] += 1
            case Choices():
                labels[item.context, item.choices][item.right] += 1
    if labels:
        flaws["contradicting"] = sum(counts.total() for counts in labels.values() if len(counts) > 1)
    ids = [item.key for item in rows if isinstance(item, Question)]
    if ids:
        flaws["repeated_id"] = len(ids) - len(set(ids))
    return flaws
