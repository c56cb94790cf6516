"""Check task rows: one answer per row, and one that the task allows."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.shards.validation import ragged_checks
from clozeline.tools.shards.validation.ragged_checks import Check, LocatedRows, Problem

_ONE_ANSWER: Final = {"classification": "label", "regression": "target", "similarity": "target"}


def _answers(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require one class of the task, or one number in its range."""
    facts = facts_of(manifest)
    if facts is None or facts.head not in _ONE_ANSWER:
        return
    if facts.multi_label:
        several = block.rows.columns["labels"]
        if (row := ragged_checks.first_row(several.lengths != len(facts.labels))) is not None:
            yield row, f"expected labels of {len(facts.labels)} classes, got {several.lengths[row]}"
        if (row := ragged_checks.first_of_values(several, several.values > 1)) is not None:
            yield row, f"expected labels of 0 and 1, got {several[row].tolist()}"
        return
    name = _ONE_ANSWER[facts.head]
    column = block.rows.columns[name]
    if (row := ragged_checks.first_row(column.lengths != 1)) is not None:
        yield row, f"expected one {name}, got {column[row].tolist()}"
        return
    values = column.values
    if name == "label":
        wrong, known = values >= len(facts.labels), f"a class below {len(facts.labels)}"
    else:
        wrong = ~((values >= np.float32(facts.low)) & (values <= np.float32(facts.high)))
        known = f"a number from {facts.low:g} to {facts.high:g}"
    if (row := ragged_checks.first_row(wrong)) is not None:
        yield row, f"expected {known} of the task {facts.name}, got {values[row]:g}"


def _tags(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require a class of the task at each tagged position, ascending token positions, and a word for each token."""
    facts, columns = facts_of(manifest), block.rows.columns
    if facts is None or "tags" not in columns:
        return
    tags, positions, rows = columns["tags"], columns["tag_positions"], columns["input_ids"]
    if (row := ragged_checks.first_row(tags.lengths != positions.lengths)) is not None:
        yield row, f"expected as many tags as tag_positions, got {tags.lengths[row]} and {positions.lengths[row]}"
    if (row := ragged_checks.first_of_values(tags, tags.values >= len(facts.labels))) is not None:
        yield row, f"expected classes below {len(facts.labels)} of the task {facts.name}, got {tags[row].tolist()}"
    if (row := ragged_checks.first_not_ascending(positions)) is not None:
        yield row, f"expected rising tag_positions, got {positions[row].tolist()}"
    if (row := ragged_checks.first_outside(positions, rows.lengths)) is not None:
        yield row, f"expected tag_positions below the {rows.lengths[row]} tokens of the row, got {positions[row].max()}"
    if (row := ragged_checks.first_row(columns["word_numbers"].lengths != rows.lengths)) is not None:
        yield row, f"expected a word number for each of {rows.lengths[row]} tokens"


def _answer_spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require an answer inside the allowed positions, and characters for each token."""
    columns = block.rows.columns
    if "answer_span" not in columns:
        return
    names = ("answer_places", "owned_places")
    rows, spans, *columns_of_positions = (columns[name] for name in ("input_ids", "answer_span", *names))
    for name, column in zip(names, columns_of_positions, strict=True):
        if (row := ragged_checks.first_not_ascending(column)) is not None:
            yield row, f"expected rising {name}, got {column[row].tolist()}"
        if (row := ragged_checks.first_outside(column, rows.lengths)) is not None:
            yield row, f"expected {name} below the {rows.lengths[row]} tokens of the row, got {column[row].max()}"
    if (row := ragged_checks.first_row(columns["offsets"].lengths != 2 * rows.lengths)) is not None:
        yield row, f"expected two offsets for each of {rows.lengths[row]} tokens, got {columns['offsets'].lengths[row]}"
    for row in range(len(rows)):
        allowed, owned = (set(column[row].tolist()) for column in columns_of_positions)
        span = spans[row].tolist()
        if len(span) != 2 or span[0] > span[1] or not allowed >= {*span, *owned}:
            yield row, f"expected the first and last position of an answer among answer_places, got {span}"


def _target_labels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require labels that equal the row's own tokens, except the first, which nothing precedes."""
    columns = block.rows.columns
    if facts_of(manifest) is None or "label_positions" not in columns:
        return
    ids, positions, labels = (columns[name] for name in ("input_ids", "label_positions", "label_ids"))
    if (row := ragged_checks.first_outside(positions, ids.lengths)) is not None or len(positions.values) != len(
        labels.values
    ):
        return  # reported by the check of all labels
    rows = np.repeat(np.arange(len(positions)), positions.lengths)
    wrong = (ids.values[ids.offsets[rows] + positions.values] != labels.values) | (positions.values == 0)
    if (row := ragged_checks.first_of_values(positions, wrong)) is not None:
        yield row, f"expected label_ids that are the tokens at label_positions 1 and later, got {labels[row].tolist()}"


def _choices(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require two or more choices that start at ascending positions, one of them correct."""
    columns = block.rows.columns
    if "choice_starts" not in columns:
        return
    rows, starts, right = (columns[name] for name in ("input_ids", "choice_starts", "choice"))
    if (row := ragged_checks.first_row((starts.lengths < 2) | (right.lengths != 1))) is not None:
        counts = f"{starts.lengths[row]} and {right[row].tolist()}"
        yield row, f"expected two or more choice_starts and one choice, got {counts}"
        return
    if (row := ragged_checks.first_not_ascending(starts)) is not None or (
        row := ragged_checks.first_outside(starts, rows.lengths)
    ) is not None:
        yield row, f"expected rising choice_starts below the {rows.lengths[row]} tokens, got {starts[row].tolist()}"
    if (
        row := ragged_checks.first_row((starts.values[starts.offsets[:-1]] != 0) | (right.values >= starts.lengths))
    ) is not None:
        yield row, f"expected a first choice at 0 and a choice below {starts.lengths[row]}, got {right[row].tolist()}"
    segments = columns.get("segment_starts")
    if segments is not None and (row := ragged_checks.first_not_ascending(segments)) is not None:
        yield row, f"expected rising segment_starts, got {segments[row].tolist()}"


TASK_CHECKS: Final[tuple[Check, ...]] = (_answers, _tags, _answer_spans, _choices, _target_labels)
