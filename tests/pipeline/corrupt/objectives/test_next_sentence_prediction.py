"""Next sentence prediction: labels balanced, lengths that tell nothing, and the kernel against a plain loop."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import Skip, build_objective
from clozeline.pipeline.rows import Example, Rows
from clozeline.seeding import LABELS, kernel_keys, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, masked, reasons, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, SEP, WORDS, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.pair_cases import frame, slow_masks, unmasked, window

RAIN, UMBRELLA, APPLES = [200, 201, 202, 203], [204, 205, 206, 207, 208], [300, 301, 302, 303, 304]


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(specials: float) -> None:
    objective = wide("next_sentence_prediction")
    rows = samples([2 + (37 * row) % 90 for row in range(1000)], specials=specials, sentences=5)
    variants = np.full(len(rows), 4, np.uint16)
    examples, skips = objective.corrupt(rows, variants, 6)
    keys = kernel_keys(6, "next_sentence_prediction", rows.fixed["uid"], variants)
    assert (skips == 0).sum() > 600
    for key, skip, sample, example in zip(keys, skips, rows, examples, strict=True):
        if skip:
            first = sample["ids"][: sample["sentence_starts"][1]]
            assert Skip(skip) == Skip.NO_MASKABLE
            assert (first == SEP).all()
            continue
        ids, starts = sample["ids"].tolist(), sample["sentence_starts"].tolist()
        word, choice = random_bits(np.array([key]), LABELS, 2)[0].tolist()
        label = word >> 63
        cut = starts[1 + (((choice >> 32) * (len(starts) - 1)) >> 32)]
        partner = sample["partner_ids"].tolist()
        size = min(len(ids) - cut, len(partner))
        wanted = frame(ids[:cut], (partner if label else ids[cut:])[:size])
        assert masked(example) == slow_masks(wanted, key, 150_000, WORDS)
        assert (example["segment_starts"].tolist(), example["sentence_label"].tolist()) == ([0, cut + 2], [label])


def test_labels_are_balanced_and_their_lengths_alike() -> None:
    """10,000 windows: half of the labels 1; and for one cut of one window both labels give the same lengths."""
    objective = wide("next_sentence_prediction")
    rows = samples([40] * 10_000, sentences=6)
    assert within_sigmas(int(corrupt(objective, rows).columns["sentence_label"].values.sum()), 10_000, 0.5)
    lengths: dict[tuple[int, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    few = rows.take(np.arange(200))
    for variant in range(40):
        for row, example in enumerate(corrupt(objective, few, variant)):
            place = row, int(example["segment_starts"][1])
            lengths[place][int(example["sentence_label"][0])].add(len(example["input_ids"]))
    both = [found for found in lengths.values() if len(found) == 2]
    assert len(both) > 800
    assert all(found[0] == found[1] and len(found[0]) == 1 for found in both)


def test_both_segments_have_text_and_end_where_sentences_do() -> None:
    rows = samples([2, 3, 5, 17, 64] * 60, sentences=4)
    for sample, example in zip(rows, corrupt(wide("next_sentence_prediction"), rows), strict=True):
        second = int(example["segment_starts"][1])
        assert second - 2 in sample["sentence_starts"].tolist()
        assert 2 < second < len(example["input_ids"]) - 1
        assert example["input_ids"][[0, second - 1, -1]].tolist() == [1, SEP, SEP]


def test_cuts_and_labels_are_uniform_and_independent() -> None:
    objective = wide("next_sentence_prediction")
    rows = window([[200 + place] for place in range(8)], WORDS, 8000, partner=[300] * 7)
    examples = corrupt(objective, rows, np.arange(8000)).columns
    cuts = examples["segment_starts"].values[1::2] - 2
    observed = np.bincount(7 * examples["sentence_label"].values + cuts - 1, minlength=14)
    assert chi_square_is_plausible(observed, np.full(14, 8000 / 14), 13)


def examples_of(count: int = 4000) -> list[Example]:
    objective = build_objective({"name": "next_sentence_prediction", "mask_share": 0.0, "random_share": 0.0}, WORDS)
    rows = window([RAIN, UMBRELLA], WORDS, count, partner=APPLES)
    return list(corrupt(objective, rows, np.arange(count)))


def test_worked_example() -> None:
    found = {(int(example["sentence_label"][0]), tuple(unmasked(example))) for example in examples_of(100)}
    assert found == {(0, tuple(frame(RAIN, UMBRELLA))), (1, tuple(frame(RAIN, APPLES)))}


def test_a_short_partner_cuts_both_labels() -> None:
    rows = window([RAIN, UMBRELLA], WORDS, 50, partner=APPLES[:2])
    objective = wide("next_sentence_prediction")
    examples = corrupt(objective, rows, np.arange(50))
    assert {tuple(unmasked(one)) for one in examples} == {
        tuple(frame(RAIN, UMBRELLA[:2])), tuple(frame(RAIN, APPLES[:2]))
    }  # fmt: skip
    assert objective.count_unused_tokens(rows, examples) == 50 * (9 + 2 - 6)


def test_reasons() -> None:
    objective = wide("next_sentence_prediction")
    rows = Rows.concatenate(
        [
            window([RAIN, UMBRELLA], WORDS),
            window([RAIN], WORDS, partner=APPLES),
            window([[SEP, SEP], UMBRELLA], WORDS, partner=APPLES),
        ]
    )
    assert reasons(objective, rows) == ["no_partner", "one_sentence", "no_maskable"]


@pytest.mark.parametrize("second", [0, 1, 2, 5, 9, 10, 200])
def test_a_wrong_place_of_the_second_segment_is_an_error(second: int) -> None:
    (example,) = examples_of(1)
    columns = {**example.columns, "segment_starts": np.array([0, second], np.uint16)}
    with pytest.raises(ValueError, match="no pair of segments"):
        wide("next_sentence_prediction").uncorrupt(Example(example.fixed, columns))


def test_a_cut_inside_a_sentence_is_an_error() -> None:
    (example,) = examples_of(1)
    sample = window([RAIN[:2], RAIN[2:] + UMBRELLA], WORDS, partner=APPLES).row(0)
    with pytest.raises(ValueError, match="first segment has 4 tokens"):
        wide("next_sentence_prediction").original(sample, example)


def test_grouping() -> None:
    objective = build_objective("next_sentence_prediction", WORDS)
    assert objective.grouping.label == "sentence_pair-509-none-partner=True-short_rate=0.1"
    assert (objective.minimum.tokens, objective.minimum.sentences) == (2, 2)
    assert max(WORDS.specials.values()) < FIRST_CONTENT


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_a_prefix_pair_equals_a_plain_loop(specials: float) -> None:
    """The window in two, cut where the draws of the labelled pair cut it, with the prefix up to the second segment."""
    objective = wide("next_sentence_prediction", attention="prefix")
    rows = samples([2 + (37 * row) % 90 for row in range(400)], specials=specials, sentences=5)
    variants = np.full(len(rows), 4, np.uint16)
    examples, skips = objective.corrupt(rows, variants, 6)
    keys = kernel_keys(6, "next_sentence_prediction", rows.fixed["uid"], variants)
    assert (skips == 0).sum() > 250
    for key, sample, example, skip in zip(keys, rows, examples, skips, strict=True):
        if skip:
            assert Skip(skip) == Skip.NO_MASKABLE
            continue
        ids, starts = sample["ids"].tolist(), sample["sentence_starts"].tolist()
        cut = starts[1 + (((random_bits(np.array([key]), LABELS, 2)[0].tolist()[1] >> 32) * (len(starts) - 1)) >> 32)]
        assert masked(example) == slow_masks(frame(ids[:cut], ids[cut:]), key, 150_000, WORDS)
        assert example["segment_starts"].tolist() == [0, cut + 2]
        assert (example["attention"].tolist(), example["prefix_length"].tolist()) == ([3], [cut + 2])
        assert np.array_equal(objective.uncorrupt(example), objective.original(sample, example))


def test_a_prefix_pair_needs_no_partner_and_has_no_label() -> None:
    objective = build_objective({"name": "next_sentence_prediction", "attention": "prefix"}, WORDS)
    assert objective.heads == ("masked_lm",)
    assert "sentence_label" not in {feature.name for feature in objective.features}
    assert objective.grouping == build_objective("next_sentence_prediction", WORDS).grouping
    rows = window([RAIN, UMBRELLA], WORDS)
    assert reasons(objective, rows) == ["none"]
    rows = window([RAIN, UMBRELLA], WORDS, 3, partner=APPLES)
    assert objective.count_unused_tokens(rows, corrupt(objective, rows)) == 3 * len(APPLES)
