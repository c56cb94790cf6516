"""Count the rows that make a score say less: rows of train in other splits, contradicting labels, repeated ids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Final

from clozeline.pipeline.tasks.group_split import overlap_keys
from clozeline.pipeline.tasks.readers import Choices, LabeledText, Question, Rejected, TaggedWords, TaskItem

SHOWN_NOTES: Final = (
    "also_in_train",
    "contradicting",
    "repeated_id",
    "questions_without_window",
    "words_without_tokens",
    "targets_cut",
)
"""Notes of a split that a reader of its scores should know."""


def keys_of(items: Iterable[TaskItem | Rejected]) -> set[str]:
    """Return the documents and texts of rows, by which `check_rows` finds them in another split."""
    return {key for item in items if not isinstance(item, Rejected) for key in overlap_keys(item)}


def check_rows(items: Sequence[TaskItem | Rejected], learnt: Set[str] | None) -> dict[str, int]:
    """Return how many rows of a split have each flaw, also where none has it.

    - `also_in_train`: share a document or a text with a row of train, which `tasks.disjoint` refuses.
    - `contradicting`: have a text that the split also holds with another label.
    - `repeated_id`: questions with the identifier of an earlier one.

    Args:
        items: of the split.
        learnt: `keys_of` the rows that models learn from; None: the split is one of them.
    """
    rows = [item for item in items if not isinstance(item, Rejected)]
    if not rows:
        return {}
    found = {}
    if learnt is not None:
        found["also_in_train"] = sum(not learnt.isdisjoint(overlap_keys(item)) for item in rows)
    labels: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    for item in rows:
        if (labelled := _labelled(item)) is not None:
            labels[labelled[0]][labelled[1]] += 1
    if labels:
        found["contradicting"] = sum(one.total() for one in labels.values() if len(one) > 1)
    ids = [item.key for item in rows if isinstance(item, Question)]
    if ids:
        found["repeated_id"] = len(ids) - len(set(ids))
    return found


def _labelled(item: TaskItem) -> tuple[Hashable, Hashable] | None:
    """Return the texts of a row and its label; None for a row whose text may have several answers."""
    match item:
        case LabeledText():
            return tuple(" ".join(text.split()) for text in item.texts), (item.label, item.target)
        case TaggedWords():
            return item.words, item.tags
        case Choices():
            return (item.context, item.choices), item.right
    return None
