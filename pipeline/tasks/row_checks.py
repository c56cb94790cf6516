"""Count rows that make a score less reliable: overlap with train, contradicting labels, repeated ids."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Final

from clozeline.pipeline.tasks.group_split import overlap_keys
from clozeline.pipeline.tasks.readers import Choices, LabeledText, Question, Rejected, TaggedWords, TaskItem

SHOWN_NOTES: Final = (
    "also_in_train", "contradicting", "repeated_id", "questions_without_window", "words_without_tokens", "targets_cut",
    "answers_without_source",
)  # fmt: skip
"""Notes of a split shown in the report of the stage."""


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
