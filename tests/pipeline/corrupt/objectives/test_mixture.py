"""Mixture: each row is what its own part makes of it, and UL2's parts have their table's
lengths."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.group.groupings import GroupingSpec
from clozeline.pipeline.rows import RowBatch
from tests.pipeline.corrupt.objectives.runner import corrupt, reasons
from tests.pipeline.corruption_cases import WORDS, samples

SPANS = {"name": "span_corruption", "input_length": 100}


def mixture(*parts, words=WORDS):
    return build_objective(
        {"name": "mixture", **({"parts": list(parts)} if parts else {})}, words, "mix"
    )


def with_parts(rows, parts):
    return RowBatch({**rows.fixed, "part": np.asarray(parts, np.uint8)}, rows.columns)


def test_rows_are_what_their_parts_make_of_them():
    parts = [
        {**SPANS, "label": "a"},
        {**SPANS, "label": "b", "mode": "X", "noise_density": 0.5},
        {"name": "prefix_lm", "architecture": "encoder_decoder", "label": "c"},
    ]

    objective = mixture(*parts)
    rows = samples([0, 1, 2, 5, 64, 30] * 40)
    rows = with_parts(rows, np.random.RandomState(3).randint(0, 3, len(rows)))
    variants = (np.arange(len(rows)) % 3).astype(np.uint16)
    examples, skips = objective.corrupt(rows, variants, 4)

    for number, part in enumerate(parts):
        alone = {key: value for key, value in part.items() if key != "label"}
        own = build_objective(alone, WORDS, part["label"])
        chosen = np.flatnonzero(rows.fixed["part"] == number)
        wanted, wanted_skips = own.corrupt(rows.take(chosen), variants[chosen], 4)

        assert skips[chosen].tolist() == wanted_skips.tolist()

        for name, column in wanted.columns.items():
            found = examples.columns[name].take(chosen)
            assert found.values.tolist() == column.values.tolist()
            assert found.offsets.tolist() == column.offsets.tolist()


UL2 = ("R1", "R2", "X1", "X2", "X3", "X4", "S")


def test_the_seven_parts_of_ul2_have_equal_shares():
    objective = mixture()
    parts = objective.parts

    assert dict(objective.grouping.options)["parts"] == tuple(
        (part.content_length, 142_858 if part.label == "R1" else 142_857) for part in parts
    )
    assert objective.content_length == max(part.content_length for part in parts)
    assert tuple(part.label for part in parts) == UL2


UNILM = (
    {"name": "next_sentence_prediction", "label": "bidirectional", "weight": 2, "max_length": 64},
    {
        "name": "next_sentence_prediction",
        "label": "prefix",
        "weight": 2,
        "max_length": 64,
        "attention": "prefix",
    },
    {"name": "masked_lm", "label": "forward", "max_length": 64, "attention": "left_to_right"},
    {"name": "masked_lm", "label": "backward", "max_length": 64, "attention": "right_to_left"},
)


def test_unilm_has_pairs_in_two_of_its_modes():
    """Segments, labels of pairs and modes stand in the rows of the parts that have them, and tokens
    are all counted."""
    parts = [
        {**part, "grouping": "sentence_pair"} if part["name"] == "masked_lm" else part
        for part in UNILM
    ]
    objective = mixture(*parts)

    assert objective.heads == mixture(*reversed(parts)).heads == ("masked_lm", "sentence"), (
        "whichever comes first"
    )
    assert objective.grouping.name == "sentence_pair"
    assert objective.grouping == GroupingSpec.of(
        "sentence_pair", objective.grouping.entry() | {"name": ()}
    )
    assert [length for length, _ in dict(objective.grouping.options)["parts"]] == [61, 61, 62, 62]

    part = np.arange(80) % 4
    rows = with_parts(samples([40] * 80, sentences=5), part)
    examples = corrupt(objective, rows)
    columns = examples.columns

    assert np.array_equal(columns["segment_starts"].lengths, np.where(part < 2, 2, 0))
    assert np.array_equal(columns["sentence_label"].lengths, part == 0)
    assert np.array_equal(columns["attention"].lengths, part > 0)
    assert columns["attention"].values.tolist() == [code for _ in range(20) for code in (3, 1, 2)]

    for sample, example in zip(rows, examples, strict=True):
        assert np.array_equal(objective.restore(example), objective.original(sample, example))
    framing = np.where(part < 2, 3, 2).sum()
    given = len(rows.columns["ids"].values) + len(rows.columns["partner_ids"].values)

    assert (
        objective.count_unused_tokens(rows, examples)
        == given - len(columns["input_ids"].values) + framing
    )


def test_a_part_refuses_its_own_rows_and_counts_them():
    objective = mixture({**SPANS, "label": "a"}, {**SPANS, "label": "b", "noise_density": 0.5})
    lengths = [part.content_length for part in objective.parts]
    rows = with_parts(
        samples(
            [
                1,
                lengths[0],
                lengths[0] + 1,
                lengths[1],
            ]
        ),
        [0, 0, 0, 1],
    )

    assert reasons(objective, rows) == ["too_short", "none", "too_long", "none"]

    rows = with_parts(samples([20] * 5), [0, 1, 1, 0, 1])

    assert objective.tally(corrupt(objective, rows)) == {"parts": {"a": 2, "b": 3}}

    with pytest.raises(ValueError, match="part 2, but there are 2"):
        objective.corrupt(
            with_parts(samples([20]), [2]),
            np.zeros(1, np.uint16),
            1,
        )
