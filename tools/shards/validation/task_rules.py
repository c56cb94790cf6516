"""Check task rows: one answer per row, and one that the task allows."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.shards.validation import ragged_checks
from clozeline.tools.shards.validation.ragged_checks import Check, LocatedRows, Problem


def _answers(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require a number for each class, or one in the range of the task."""
    facts = facts_of(manifest)
    if facts is None:
        return
    if facts.multi_label:
        several = block.rows.columns["labels"]
        if (row := ragged_checks.first_row(several.lengths != len(facts.labels))) is not None:
            yield row, f"expected labels of {len(facts.labels)} classes, got {several.lengths[row]}"
    elif "target" in block.rows.columns:
        scores = block.rows.columns["target"]
        wrong = ~((scores.values >= np.float32(facts.low)) & (scores.values <= np.float32(facts.high)))
        if (row := ragged_checks.first_of_values(scores, wrong)) is not None:
            known = f"a number from {facts.low:g} to {facts.high:g}"
            yield row, f"expected {known} of the task {facts.name}, got {scores[row][0]:g}"


def _tags(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require a word for each token."""
    columns = block.rows.columns
    if "word_numbers" in columns:
        sizes = columns["input_ids"].lengths
        if (row := ragged_checks.first_row(columns["word_numbers"].lengths != sizes)) is not None:
            yield row, f"expected a word number for each of {sizes[row]} tokens"


def _answer_spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require an answer inside the allowed positions, and characters for each token."""
    columns = block.rows.columns
    if "answer_span" not in columns:
        return
    rows, spans = columns["input_ids"], columns["answer_span"]
    if (row := ragged_checks.first_row(columns["offsets"].lengths != 2 * rows.lengths)) is not None:
        yield row, f"expected two offsets for each of {rows.lengths[row]} tokens, got {columns['offsets'].lengths[row]}"
    for row in range(len(rows)):
        allowed, owned = (set(columns[name][row].tolist()) for name in ("answer_places", "owned_places"))
        span = spans[row].tolist()
        if len(span) != 2 or span[0] > span[1] or not allowed >= {*span, *owned}:
            yield row, f"expected the first and last position of an answer among answer_places, got {span}"


def _target_labels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require labels that equal the row's own tokens, except the first, which nothing precedes."""
    columns = block.rows.columns
    if facts_of(manifest) is None or "label_positions" not in columns:
        return
    ids, positions, labels = (columns[name] for name in ("input_ids", "label_positions", "label_ids"))
    rows = np.repeat(np.arange(len(positions)), positions.lengths)
    wrong = (ids.values[ids.offsets[rows] + positions.values] != labels.values) | (positions.values == 0)
    if (row := ragged_checks.first_of_values(positions, wrong)) is not None:
        yield row, f"expected label_ids that are the tokens at label_positions 1 and later, got {labels[row].tolist()}"


def _choices(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require two or more choices, one of them correct."""
    columns = block.rows.columns
    if "choice_starts" not in columns:
        return
    starts, right = columns["choice_starts"], columns["choice"]
    if (row := ragged_checks.first_row((starts.lengths < 2) | (right.values >= starts.lengths))) is not None:
        yield row, f"expected two or more choices and a choice below {starts.lengths[row]}, got {right[row].tolist()}"


TASK_CHECKS: Final[tuple[Check, ...]] = (_answers, _tags, _answer_spans, _choices, _target_labels)
