"""The contract of objectives.

Rows of random words are grouped as the objective asks, corrupted and restored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final

import numpy as np

from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.preview.words import PreviewText, WordCodec, sample_rows_of
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.tools.start.contracts import Entry, require

_WORDS: Final = [f"{'##' * (number % 3 == 0)}w{number}" for number in range(600)]
_MAX_LENGTH: Final = 100
"""Tokens of the longest row that an objective makes in a check."""


@dataclass(frozen=True)
class ObjectiveCase:
    """An objective, its name and options, and sample rows, which are made read-only."""

    entry: Entry
    objective: Objective
    rows: RowBatch

    def __post_init__(self) -> None:
        lists = (
            array
            for column in self.rows.columns.values()
            for array in (column.values, column.offsets)
        )
        for array in (*self.rows.fixed.values(), *lists):
            array.setflags(write=False)

    def corrupt(
        self, rows: RowBatch | None = None, variant: int = 0, seed: int = 1
    ) -> tuple[RowBatch, Any]:
        """Return the examples of rows, by default all, and the skips.

        Variants count from a first one on.
        """
        rows = self.rows if rows is None else rows
        variants = rows.fixed["uid"] % np.uint64(5) + np.uint64(variant)
        return self.objective.corrupt(rows, variants.astype(np.uint16), seed)


def prepare(entry: Entry) -> ObjectiveCase:
    """Return an objective with rows of up to 100 tokens.

    Its grouping makes them of documents of 1 to 96 words.
    """
    random = Random(0)
    codec = WordCodec(_WORDS)
    known = {field.name for field in fields(OBJECTIVES.load_class(entry["name"]).Options)}
    entry = {
        **{key: _MAX_LENGTH for key in ("max_length", "input_length") if key in known},
        **entry,
    }
    objective = build_objective(entry, codec.vocabulary)

    def text(sentences: int, words: int) -> PreviewText:
        lines = [" ".join(random.choices(_WORDS, k=words)) for _ in range(sentences + 1)]
        return PreviewText(tuple(lines[1:]), lines[0])

    texts = [text(1 + number % 12, 8) for number in range(600)] + [
        text(1, words) for words in (1, 2, 3, 5)
    ]
    rows = sample_rows_of(objective, codec, texts)
    require(len(rows), "expected rows of its grouping, got none")
    return ObjectiveCase(entry, objective, rows)


def find_changed(first: RowBatch, second: RowBatch) -> Any:
    """Return which rows differ in any list column, shape [rows] bool."""
    pairs = zip(first, second, strict=True)
    return np.array(
        [any(not np.array_equal(a[name], b[name]) for name in first.columns) for a, b in pairs]
    )


def check_features(case: ObjectiveCase) -> None:
    """Examples have the declared features and types."""
    size = case.objective.vocabulary.size
    features = case.objective.features
    columns = case.corrupt()[0].columns
    require(
        features[0].dtype == "ids",
        f"expected ids as the first feature, its tokens are counted; got {features[0]}",
    )

    for feature in features:
        column: Ragged = columns[feature.name]
        dtype = (
            case.objective.vocabulary.id_dtype
            if feature.dtype == "ids"
            else np.dtype(feature.dtype)
        )

        require(
            column.values.dtype == dtype,
            f"{feature.name}: expected {dtype}, got {column.values.dtype}",
        )

        if feature.role.use in ("row", "weight"):
            most = int(column.lengths.max())
            require(
                most <= 1,
                f"{feature.name}: expected one value per row, as its role says, got up to {most}",
            )

        require(
            feature.role.of in ("", *columns),
            f"{feature.name}: its role names '{feature.role.of}', no feature",
        )
        require(feature.description, f"{feature.name}: expected a description, got none")
        largest = int(column.values.max(initial=0)) if feature.dtype == "ids" else 0
        require(largest < size, f"{feature.name}: expected ids below {size}, got {largest}")


def check_uncorrupt(case: ObjectiveCase) -> None:
    """`restore` gives back every row from its example alone."""
    for sample, example, skip in zip(case.rows, *case.corrupt(), strict=True):
        if skip:
            require(
                not any(map(len, example.columns.values())),
                "expected no values in a skipped row, got some",
            )
            continue

        restored = case.objective.restore(example)
        expected = case.objective.original(sample, example)
        if not np.array_equal(restored, expected):
            both = min(len(restored), len(expected))
            first = int(np.append(np.flatnonzero(restored[:both] != expected[:both]), both)[0])
            wanted, got = (array[first : first + 5].tolist() for array in (expected, restored))
            require(
                False,
                f"expected {len(expected)} tokens, got {len(restored)}: {wanted} became {got} from "
                f"position {first} on. Store in a feature with the role `undo` what others do not "
                "tell; override `original` to use a part",
            )


def check_batches(case: ObjectiveCase) -> None:
    """An example depends on its row, not on the order and size of the batch."""
    complete, skips = case.corrupt()
    order = np.argsort(case.rows.fixed["uid"])

    for portion in (1, 7, 64):
        for start in range(0, len(order), portion):
            chosen = order[start : start + portion]
            part, part_skips = case.corrupt(case.rows.take(chosen))
            other = int(
                (find_changed(part, complete.take(chosen)) | (part_skips != skips[chosen])).sum()
            )
            require(
                not other,
                f"expected from {portion} rows what a batch of {len(order)} gave, got {other} "
                "other ones. Keep nothing from call to call, and draw only by "
                "`random_keys.for_label`",
            )


def check_draws(case: ObjectiveCase) -> None:
    """Another seed, variant, uid or label gives another corruption."""
    lengths = case.rows.columns["ids"].lengths
    rows = case.rows.take(np.flatnonzero(lengths >= min(32, lengths.max())))
    first, skips = case.corrupt(rows)
    kept = skips == 0
    require(kept.any(), "expected its longest rows to be used, got skips alone")

    for what, (other, _) in _draw_again(case, rows):
        share = float(find_changed(first, other)[kept].mean())
        least = case.objective.min_redrawn_share
        require(
            share >= least and (share == 0 or least > 0),
            f"expected another {what} to change {least:.0%} of rows or more, got {share:.0%}. Draw "
            "by `random_keys.for_label`; where fewer change, declare this share as "
            "`min_redrawn_share`, 0 where nothing is drawn",
        )


def _draw_again(case: ObjectiveCase, rows: RowBatch) -> Iterator[tuple[str, tuple[RowBatch, Any]]]:
    """Yield examples of the same rows with other draws, and what differs."""
    yield "variant", case.corrupt(rows, variant=5)
    yield "seed", case.corrupt(rows, seed=2)
    # the variants remain
    yield (
        "uid",
        case.corrupt(
            RowBatch({**rows.fixed, "uid": rows.fixed["uid"] + np.uint64(5)}, rows.columns)
        ),
    )
    if case.objective.draws_by_label:
        renamed = build_objective(case.entry, case.objective.vocabulary, "another")
        yield "label", ObjectiveCase(case.entry, renamed, rows).corrupt()


CHECKS: Final = (check_features, check_uncorrupt, check_batches, check_draws)
