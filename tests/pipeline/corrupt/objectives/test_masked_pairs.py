"""Pairs of texts: each objective against a plain loop, the laws of labels, and rows that are no
pairs."""

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import Skip, build_objective
from clozeline.pipeline.kernels.distributions import reciprocal_thresholds
from clozeline.pipeline.rows import Example, RowBatch
from clozeline.pipeline.vocabulary import Corpus
from clozeline.seeding import LABELS, kernel_keys, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, reasons, wide
from tests.pipeline.corruption_cases import SEP, WORDS, one_sample, samples
from tests.pipeline.pair_cases import frame, slow_masks, unmasked, window
from tests.pipeline.word_cases import drawn, masked_by_hand, slow_take, slow_words

RAIN = [200, 201, 202, 203]
UMBRELLA = [204, 205, 206, 207, 208]
APPLES = [300, 301, 302, 303, 304]
NSP = "next_sentence_prediction"
SOP = "sentence_order_prediction"
TLM = "translation_lm"
COUNTED = replace(WORDS, corpus=Corpus((np.arange(WORDS.size) * 7919 % 1009).astype(np.uint64)))


def slow_pair(name, sample, key, attention=""):
    """Return both segments and the features of a pair."""
    ids = sample["ids"].tolist()
    starts = sample["sentence_starts"].tolist()
    word, choice = drawn(key, LABELS, 2)
    label = word >> 63
    if name == TLM:
        sides = [
            (ids, 0),
            (sample["target_ids"].tolist(), 1),
        ][:: -1 if label else 1]
        return *(side for side, _ in sides), {"languages": [language for _, language in sides]}

    cut = starts[1 + (((choice >> 32) * (len(starts) - 1)) >> 32)]
    if name == SOP:
        return *(ids[:cut], ids[cut:])[:: -1 if label else 1], {"sentence_label": [label]}
    if attention:
        return (
            ids[:cut],
            ids[cut:],
            {
                "attention": [3],
                "prefix_length": [cut + 2],
            },
        )
    partner = sample["partner_ids"].tolist()
    size = min(len(ids) - cut, len(partner))
    return ids[:cut], (partner if label else ids[cut:])[:size], {"sentence_label": [label]}


def slow_spans(row, key, longest):
    found = slow_words(row, WORDS)
    k = max(1, floor(Fraction(sum(word.length for word in found) * 15, 100) + Fraction(1, 2)))
    positions = slow_take(key, found, k, reciprocal_thresholds(longest).tolist())
    return masked_by_hand(key, row, positions, WORDS)


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (NSP, {}),
        (NSP, {"attention": "prefix"}),
        (TLM, {}),
        (TLM, {"frequency_exponent": 0.5}),
        *((SOP, {"max_span_length": longest}) for longest in (0, 1, 3)),
    ],
)
def test_equals_a_plain_loop(name, options, specials):
    objective = wide(name, COUNTED, **options)
    rows = samples(
        [2 + (37 * row) % 90 for row in range(400)],
        specials=specials,
        sentences=5,
    )
    variants = np.full(len(rows), 4, np.uint16)
    examples, skips = objective.corrupt(rows, variants, 6)

    assert (skips == 0).sum() > 250

    for key, skip, sample, example in zip(
        kernel_keys(6, name, rows.fixed["uid"], variants), skips, rows, examples, strict=True
    ):
        if skip:
            first = sample["ids"][: sample["sentence_starts"][1] if name == NSP else None]
            assert Skip(skip) == Skip.NO_MASKABLE
            assert (first == SEP).all()
            continue

        first, second, features = slow_pair(name, sample, key, options.get("attention", ""))
        row = frame(first, second)
        exponent = options.get("frequency_exponent", 0)
        longest = options.get("max_span_length")
        hidden = (
            slow_spans(row, key, longest)
            if longest
            else slow_masks(row, key, 150_000, COUNTED, exponent)
        )

        assert masked(example) == hidden
        assert example["segment_starts"].tolist() == [0, len(first) + 2]
        assert {column: example[column].tolist() for column in features} == features
        assert np.array_equal(objective.restore(example), objective.original(sample, example))


# Next sentences
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partner", "unused"),
    [
        (APPLES, 9 + 5 - 9),
        (APPLES[:2], 9 + 2 - 6),
    ],
)
def test_a_short_partner_cuts_both_labels(partner, unused):
    rows = window([RAIN, UMBRELLA], WORDS, 50, partner=partner)
    examples = corrupt(wide(NSP), rows, np.arange(50))
    size = len(partner)

    assert {(int(one["sentence_label"][0]), *unmasked(one)) for one in examples} == {
        (0, *frame(RAIN, UMBRELLA[:size])),
        (1, *frame(RAIN, partner)),
    }
    assert wide(NSP).count_unused_tokens(rows, examples) == 50 * unused


def test_reasons():
    wanted = {
        NSP: [("no_partner", {}), ("one_sentence", {"partner": APPLES})],
        SOP: [("none", {}), ("one_sentence", {})],
        TLM: [("empty", {}), ("none", {"target": APPLES})],
    }
    for name, ((first, sides), (second, others)) in wanted.items():
        assert reasons(wide(name), window([RAIN, UMBRELLA], WORDS, **sides)) == [first]
        assert reasons(wide(name), window([RAIN], WORDS, **others)) == [second]

    assert reasons(wide(NSP), window([[SEP, SEP], UMBRELLA], WORDS, partner=APPLES)) == [
        "no_maskable"
    ]
    assert reasons(wide(SOP), window([[SEP], [SEP]], WORDS)) == ["no_maskable"]

    short = build_objective({"name": TLM, "max_length": 20}, WORDS)
    sides = [
        ([RAIN, [200]], [300] * 13),
        ([[SEP]], [SEP]),
        ([[SEP]], [300] * 16),
    ]
    rows = RowBatch.concatenate([window(source, WORDS, target=target) for source, target in sides])

    assert reasons(short, rows) == ["too_long", "no_maskable", "none"]


def test_a_prefix_pair_needs_no_partner_and_has_no_label():
    objective = build_objective({"name": NSP, "attention": "prefix"}, WORDS)

    assert objective.heads == ("masked_lm",)
    assert "sentence_label" not in {feature.name for feature in objective.features}
    assert objective.grouping == build_objective(NSP, WORDS).grouping
    assert reasons(objective, window([RAIN, UMBRELLA], WORDS)) == ["none"]

    rows = window([RAIN, UMBRELLA], WORDS, 3, partner=APPLES)

    assert objective.count_unused_tokens(rows, corrupt(objective, rows)) == 3 * len(APPLES)


def test_groupings():
    labels = {
        NSP: "sentence_pair-509-none-partner=True-short_rate=0.1",
        SOP: "sentence_pair-509-none-partner=False-short_rate=0.1",
        TLM: "parallel-253-none-cut=longer",
    }

    assert {name: build_objective(name, WORDS).grouping.label for name in labels} == labels
    assert build_objective(TLM, WORDS).options.reset_positions


# Examples that are no pairs of their samples
# --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"), [(NSP, "window is cut at 4"), (SOP, "window is cut at 4")]
)
def test_a_cut_inside_a_sentence_is_an_error(name, message):
    objective = wide(name)
    (example,) = corrupt(objective, window([RAIN, UMBRELLA], WORDS, partner=APPLES))
    other = window(
        [RAIN[:3], RAIN[3:] + UMBRELLA],
        WORDS,
        partner=APPLES,
    ).row(0)
    with pytest.raises(ValueError, match=message):
        objective.original(other, example)


@pytest.mark.parametrize("second", [0, 1, 2, 5, 9, 10, 200])
def test_a_wrong_place_of_the_second_segment_is_an_error(second):
    (example,) = corrupt(
        wide(NSP, mask_share=0.0, random_share=0.0), window([RAIN, UMBRELLA], WORDS, partner=APPLES)
    )
    columns = {**example.columns, "segment_starts": np.array([0, second], np.uint16)}
    with pytest.raises(ValueError, match="does not fit the row"):
        wide(NSP).restore(Example(example.fixed, columns))


# Sentence comparison
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", [4, 12, 700])
def test_adjacent_equals_a_plain_loop(longest):
    objective = build_objective({"name": "sentence_comparison", "max_length": longest}, WORDS)
    rows = samples([2 + row % (2 * longest - 5) for row in range(1000)], sentences=4)
    for key, sample, example in keyed(objective, rows):
        sentences = np.split(sample["ids"], sample["sentence_starts"][1:])
        first = (
            (int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 32) * (len(sentences) - 1)
        ) >> 32
        for name, sentence in zip(
            ("input_ids", "input_ids_b"), sentences[first : first + 2], strict=True
        ):
            assert example[name].tolist() == [
                1,
                *sentence[: longest - 2].tolist(),
                2,
            ]


def test_unused_tokens():
    objective = wide("sentence_comparison")
    rows = one_sample(range(200, 210), (0, 3, 5), WORDS, 20)
    examples = corrupt(objective, rows, np.arange(20))
    pairs = examples.columns["input_ids"].lengths + examples.columns["input_ids_b"].lengths - 4
    assert objective.count_unused_tokens(rows, examples) == int((10 - pairs).sum()) > 0
