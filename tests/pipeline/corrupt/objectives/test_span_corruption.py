"""Span corruption: lengths, sentinels, the law of the spans, the kernel against a plain loop,
documents kept apart."""

from itertools import pairwise

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.seeding import LENGTHS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, wide
from tests.pipeline.corruption_cases import (
    EOS,
    FIRST_CONTENT,
    WORDS,
    fixed_columns,
    one_sample,
    samples,
    vocabulary,
)
from tests.pipeline.word_cases import smallest

X, Y = WORDS.sentinels[:2]


def slow(ids, key, k, marks, final):
    """Input and target of one row."""
    cuts = [
        0,
        *(cut + 1 for cut in sorted(smallest(key, LENGTHS, k - 1, marks - 1))),
        k,
    ]
    sizes = np.diff(cuts).tolist()
    inputs = []
    targets = []
    place = 0
    kept = 0

    for mark, (slot, size) in enumerate(
        zip(sorted(smallest(key, SLOTS, len(ids) - k + 1, marks)), sizes, strict=True)
    ):
        inputs += [*ids[place : place + slot - kept], WORDS.sentinels[mark]]
        place += slot - kept
        targets += [WORDS.sentinels[mark], *ids[place : place + size]]
        place = place + size
        kept = slot

    return [*inputs, *ids[place:], EOS], [
        *targets,
        *([WORDS.sentinels[marks]] if final else []),
        EOS,
    ]


@pytest.mark.parametrize(
    ("final", "percent", "mean", "longest"),
    [(False, 15, 3, 700), (True, 15, 3, 700), (False, 66, 1, 60)],
)
def test_equals_a_plain_loop(final, percent, mean, longest):
    """Rows of two tokens and more; at a mean of 1 there are spans in nearly every gap."""
    options = {
        "noise_density": percent / 100,
        "mean_noise_span_length": float(mean),
        "final_sentinel": final,
    }

    objective = wide("span_corruption", **options, input_length=longest)
    rows = samples(
        [2 + (53 * row) % min(200, longest - 3) for row in range(400)]
        + [objective.content_length] * 5
    )
    for key, sample, example in keyed(objective, rows):
        n = len(sample["ids"])
        k = min(n - 1, max(1, (n * percent + 50) // 100))
        marks = min(
            k,
            n - k + 1,
            max(1, (2 * k + mean) // (2 * mean)),
        )
        wanted = slow(sample["ids"].tolist(), key, k, marks, final)
        assert (example["input_ids"].tolist(), example["target_ids"].tolist()) == wanted


@pytest.mark.parametrize(
    ("options", "raw", "target", "noise", "marks"),
    [
        ({"input_length": 512}, 568, 114, 85, 28),
        ({"noise_density": 0.15, "mean_noise_span_length": 8.0}, 588, 100, 88, 11),
        ({"noise_density": 0.5, "target_length": 512}, 766, 512, 383, 128),
        (
            {"noise_density": 0.5, "mean_noise_span_length": 8.0, "target_length": 512},
            908,
            512,
            454,
            57,
        ),
        ({"noise_density": 0.15, "mean_noise_span_length": 64.0}, 600, 92, 90, 1),
        (
            {"noise_density": 0.5, "mean_noise_span_length": 64.0, "target_length": 512},
            1006,
            512,
            503,
            8,
        ),
    ],
)
def test_full_rows_fill_the_input(options, raw, target, noise, marks):
    objective = build_objective({"name": "span_corruption", **options}, WORDS)

    assert objective.content_length == raw

    found_noise, found_marks = objective.count_spans(np.array([raw]))

    assert (int(found_noise[0]), int(found_marks[0])) == (noise, marks)

    examples = corrupt(objective, samples([raw] * 20))

    assert set(examples.columns["input_ids"].lengths.tolist()) == {options.get("input_length", 512)}
    assert set(examples.columns["target_ids"].lengths.tolist()) == {target}


def test_a_decoder_reads_input_and_target_as_one_row():
    """As a prefix, or from left to right with the target's tokens as labels.

    The mode token stands first.
    """
    pair, prefixed, causal = (
        wide("span_corruption", label="same", mode="X", **options)
        for options in (
            {},
            {"architecture": "decoder"},
            {"architecture": "decoder", "attention": "causal"},
        )
    )

    rows = samples([2, 30, 64])
    for one, both, other in zip(
        corrupt(pair, rows), corrupt(prefixed, rows), corrupt(causal, rows), strict=True
    ):
        prefix = len(one["input_ids"])
        row = [*one["input_ids"], *one["target_ids"]]

        assert row[0] == WORDS.modes["X"]
        assert both["input_ids"].tolist() == other["input_ids"].tolist() == row
        assert both["prefix_length"].tolist() == [prefix]
        assert other["label_positions"].tolist() == list(range(prefix, len(row)))
        assert other["label_ids"].tolist() == row[prefix:]

    assert causal.form.predict_from == "previous"

    with pytest.raises(ConfigurationError, match="attention: causal needs architecture: decoder"):
        wide("span_corruption", attention="causal")


def test_special_ids_inside_are_refused():
    rows = RowBatch.concatenate([one_sample(ids, [0]) for ids in ([300, 301], [300, 301, 302, 2])])
    with pytest.raises(ValueError, match="row 1 holds the reserved id 2 at position 3"):
        wide("span_corruption").corrupt(rows, np.zeros(2, np.uint16), 1)


@pytest.mark.parametrize(
    "options",
    [
        {"input_length": 2048, "mean_noise_span_length": 2.0},
        {"input_length": 900, "noise_density": 0.5, "mode": "X"},
        {"noise_density": 0.5, "target_length": 513, "final_sentinel": True},
    ],
)
def test_too_few_sentinels_name_the_longest_input_that_has_enough(options):
    with pytest.raises(
        ConfigurationError, match=r"128 are enough for input_length: \d+$"
    ) as refused:
        build_objective({"name": "span_corruption", **options}, WORDS)

    enough = int(str(refused.value).rpartition(" ")[2])
    build_objective({"name": "span_corruption", **options, "input_length": enough}, WORDS)
    with pytest.raises(ConfigurationError, match="needs 129 sentinels"):
        build_objective({"name": "span_corruption", **options, "input_length": enough + 1}, WORDS)


# Documents kept apart
# -------------------------------------------------------------------------------------------------

LARGE = vocabulary(20_000)
SIZES = [
    [30],
    [1, 1, 1, 1],
    [1, 40, 2, 17],
    [60, 1, 60],
    [3, 4, 5, 6, 7, 8, 9],
    [90, 90, 2],
    [2] * 40,
]
SPANS = {"input_length": 400, "noise_density": 0.5, "mean_noise_span_length": 4.0}
APART = [
    ("span_corruption", SPANS),
    ("span_corruption", {**SPANS, "final_sentinel": True, "mode": "R"}),
    ("causal_lm", {"architecture": "encoder_decoder", "separator": "none"}),
]


def packed_rows():
    """Rows of documents of these sizes, of tokens that no other has.

    Each has sentences of three tokens.
    """
    ids = [
        np.concatenate([FIRST_CONTENT + 200 * i + np.arange(n) for i, n in enumerate(sizes)])
        for sizes in SIZES
    ]
    starts = [np.cumsum([0, *sizes[:-1]]) for sizes in SIZES]
    sentences = [
        [
            start + place
            for start, size in zip(first, sizes, strict=True)
            for place in range(0, size, 3)
        ]
        for first, sizes in zip(starts, SIZES, strict=True)
    ]

    columns = {
        "ids": Ragged.from_lists(ids, LARGE.id_dtype),
        "sentence_starts": Ragged.from_lists(sentences, np.uint16),
        "document_starts": Ragged.from_lists(starts, np.uint16),
    }

    return RowBatch(fixed_columns(np.arange(7, 7 + len(SIZES), dtype=np.uint64)), columns)


def parts(example, column, starts):
    """The tokens of each document."""
    return [
        example[column][a:b].tolist()
        for a, b in pairwise(
            [
                *example[starts].tolist(),
                len(example[column]),
            ]
        )
    ]


@pytest.mark.parametrize(("name", "options"), APART)
def test_every_token_is_of_its_document(name, options):
    apart, across = (
        wide(name, LARGE, grouping="packed", cross_documents=cross, **options)
        for cross in (False, True)
    )
    names = [[feature.name for feature in objective.features] for objective in (apart, across)]

    assert names[0] == [*names[1], "document_starts", "target_document_starts"]
    assert apart.grouping == across.grouping

    rows = packed_rows()
    sentinels = set(LARGE.sentinels)
    shorter = 0

    for variant in range(10):
        examples, skips = apart.corrupt(
            rows,
            np.full(len(rows), variant, np.uint16),
            seed=1,
        )

        assert list(examples.columns) == names[0]
        assert (skips == 0).sum() >= 6

        for sample, example in [
            (rows.row(row), examples.row(row)) for row in np.flatnonzero(skips == 0).tolist()
        ]:
            texts = parts(sample, "ids", "document_starts")
            inputs = parts(example, "input_ids", "document_starts")
            targets = parts(example, "target_ids", "target_document_starts")

            assert all(inputs), "each document has a place that its targets can read"

            for text, given, wanted in zip(texts, inputs, targets, strict=True):
                assert {one for one in (*given, *wanted) if one >= FIRST_CONTENT} <= set(text)
                if name == "span_corruption" and "mode" not in options:
                    assert refilled(given, wanted, sentinels) == text

            np.testing.assert_array_equal(apart.restore(example), apart.original(sample, example))

            if name == "span_corruption":
                noise, marks = (
                    int(one[0]) for one in apart.count_spans(np.array([len(sample["ids"])]))
                )
                found = np.isin(example["target_ids"], LARGE.sentinels).sum()
                assert found == marks + options.get("final_sentinel", False)
                shorter += int((example["target_ids"] >= FIRST_CONTENT).sum()) < noise

    assert shorter or name == "causal_lm", "spans are cut at documents"


def refilled(given, wanted, sentinels):
    """Put each span of a target in the place of its sentinel; none is empty."""
    spans = {}

    for one in wanted:
        if one in sentinels:
            spans[one] = []
        elif one != EOS:
            spans[list(spans)[-1]].append(one)

    assert all(spans.values())

    return [token for one in given if one != EOS for token in spans.get(one, [one])]


def test_rows_of_one_document_are_as_without_isolation():
    apart, across = (
        corrupt(
            wide("span_corruption", LARGE, **SPANS, cross_documents=cross),
            packed_rows().take(np.array([0])),
        )
        for cross in (False, True)
    )
    for column, lists in across.columns.items():
        np.testing.assert_array_equal(apart.columns[column].values, lists.values)
