"""Span corruption: lengths, sentinels, the law of the spans, and the kernel against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import Rows
from clozeline.seeding import LENGTHS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, reachable, variants_of, wide
from tests.pipeline.corruption_cases import EOS, WORDS, one_sample, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.word_cases import smallest

X, Y = WORDS.sentinels[:2]


def slow(ids: list[int], key: np.uint64, k: int, marks: int) -> tuple[list[int], list[int]]:
    """Input and target of one row."""
    cuts = [0, *(cut + 1 for cut in sorted(smallest(key, LENGTHS, k - 1, marks - 1))), k]
    sizes = np.diff(cuts).tolist()
    inputs, targets, place, kept = [], [], 0, 0
    for mark, (slot, size) in enumerate(zip(sorted(smallest(key, SLOTS, len(ids) - k + 1, marks)), sizes, strict=True)):
        inputs += [*ids[place : place + slot - kept], WORDS.sentinels[mark]]
        place += slot - kept
        targets += [WORDS.sentinels[mark], *ids[place : place + size]]
        place, kept = place + size, slot
    return [*inputs, *ids[place:], EOS], [*targets, EOS]


def test_equals_a_plain_loop() -> None:
    objective = wide("span_corruption")
    rows = samples([2 + (53 * row) % 200 for row in range(400)] + [568] * 5)
    for key, sample, example in keyed(objective, rows):
        n = len(sample["ids"])
        k = min(n - 1, max(1, (n * 150_000 + 500_000) // 1_000_000))
        marks = min(k, max(1, (2000 * k + 3000) // 6000))
        wanted = slow(sample["ids"].tolist(), key, k, marks)
        assert (example["input_ids"].tolist(), example["target_ids"].tolist()) == wanted


@pytest.mark.parametrize(
    ("options", "raw", "target", "noise", "marks"),
    [
        ({"input_length": 128}, 141, 29, 21, 7),
        ({"input_length": 256}, 284, 58, 43, 14),
        ({"input_length": 512}, 568, 114, 85, 28),
        ({"input_length": 1024}, 1137, 229, 171, 57),
        ({"input_length": 2048}, 2274, 456, 341, 114),
        ({"noise_density": 0.15, "mean_noise_span_length": 8.0}, 588, 100, 88, 11),
        ({"noise_density": 0.5, "target_length": 512}, 766, 512, 383, 128),
        ({"noise_density": 0.5, "mean_noise_span_length": 8.0, "target_length": 512}, 908, 512, 454, 57),
        ({"noise_density": 0.15, "mean_noise_span_length": 64.0}, 600, 92, 90, 1),
        ({"noise_density": 0.5, "mean_noise_span_length": 64.0, "target_length": 512}, 1006, 512, 503, 8),
    ],
)
def test_full_rows_fill_the_input(options: dict[str, float], raw: int, target: int, noise: int, marks: int) -> None:
    objective = build_objective({"name": "span_corruption", **options}, WORDS)
    assert objective.content_length == raw
    found_noise, found_marks = objective.plan(np.array([raw]))  # type: ignore[attr-defined]
    assert (int(found_noise[0]), int(found_marks[0])) == (noise, marks)
    examples = corrupt(objective, samples([raw] * 20))
    assert set(examples.columns["input_ids"].lengths.tolist()) == {options.get("input_length", 512)}
    assert set(examples.columns["target_ids"].lengths.tolist()) == {target}


@pytest.mark.parametrize("final", [False, True])
def test_sentinels_stand_once_and_in_order(final: bool) -> None:
    objective = wide("span_corruption", final_sentinel=final)
    for example in corrupt(objective, samples([5, 64, 300, 568] * 50)):
        inputs, targets = example["input_ids"], example["target_ids"]
        places = np.flatnonzero(np.isin(inputs, WORDS.sentinels))
        marks = len(places)
        assert inputs[places].tolist() == list(WORDS.sentinels[:marks])
        assert (np.diff(places) > 1).all(), "no two sentinels touch"
        in_target = targets[np.isin(targets, WORDS.sentinels)]
        assert in_target.tolist() == list(WORDS.sentinels[: marks + final])
        assert not final or targets[-2] == WORDS.sentinels[marks]


def noise_masks(n: int, copies: int, **options: object) -> np.ndarray:
    """Return which tokens of rows 200, 201, ... are noise, shape [copies, n]."""
    objective = wide("span_corruption", **{"input_length": 100, **options})
    ids = np.arange(200, 200 + n)
    examples = corrupt_variants(objective, ids.tolist(), copies)
    targets = examples["target_ids"]
    mask = np.zeros((copies, n + 1), np.bool_)
    content = targets.values >= 200
    mask[np.repeat(np.arange(copies), targets.lengths)[content], targets.values[content] - 200] = True
    return mask[:, :n]


def corrupt_variants(objective, ids: list[int], copies: int):  # type: ignore[no-untyped-def]
    rows = one_sample(ids, [0], objective.vocabulary, copies)
    return objective.corrupt(rows, np.arange(copies, dtype=np.uint16), 5)[0].columns


def test_all_small_masks_are_equally_likely() -> None:
    """n = 7, k = 3, S = 2: C(5, 2) placings of C(2, 1) length pairs."""
    masks = noise_masks(7, 20_000, noise_density=0.428571, mean_noise_span_length=1.5)
    observed = np.unique(masks @ (1 << np.arange(7)), return_counts=True)[1]
    assert len(observed) == comb(5, 2) * comb(2, 1) == 20
    assert chi_square_is_plausible(observed, np.full(20, 1000.0), 19)


def test_first_and_last_token_are_noise_with_the_slot_law() -> None:
    n, k, marks = 568, 85, 28
    masks = noise_masks(n, 5000, input_length=512)
    assert (masks.sum(axis=1) == k).all()
    for place in (0, n - 1):
        assert within_sigmas(int(masks[:, place].sum()), 5000, marks / (n - k + 1))
    assert abs(masks[:, 10:-10].mean() - k / n) < 0.0015


def test_two_tokens_are_the_shortest_row() -> None:
    examples = variants_of(wide("span_corruption"), [300, 301], count=50)
    assert reachable(examples, input_ids=[300, X, EOS], target_ids=[X, 301, EOS])
    assert reachable(examples, input_ids=[X, 301, EOS], target_ids=[X, 300, EOS])


def test_every_gap_may_hold_a_span() -> None:
    """k = 2 of 3 at mean 1: both sides of the one token that stays."""
    objective = wide("span_corruption", input_length=60, noise_density=0.666667, mean_noise_span_length=1.0)
    examples = variants_of(objective, [300, 301, 302], count=5)
    assert all(example["target_ids"].tolist() == [X, 300, Y, 302, EOS] for example in examples)


def test_decoder_form_and_mode_token() -> None:
    pair = wide("span_corruption", label="same", mode="X")
    joined = wide("span_corruption", label="same", mode="X", architecture="decoder")
    rows = samples([2, 30, 64])
    for one, both in zip(corrupt(pair, rows), corrupt(joined, rows), strict=True):
        assert one["input_ids"][0] == WORDS.modes["X"]
        assert both["input_ids"].tolist() == [*one["input_ids"], *one["target_ids"]]
        assert both["prefix_length"].tolist() == [len(one["input_ids"])]
    assert joined.frame.decoder_start is None or joined.architecture == "decoder"


def test_a_decoder_may_read_the_input_from_left_to_right() -> None:
    prefixed = wide("span_corruption", label="same", architecture="decoder")
    causal = wide("span_corruption", label="same", architecture="decoder", attention="causal")
    rows = samples([2, 30, 64])
    for one, other in zip(corrupt(prefixed, rows), corrupt(causal, rows), strict=True):
        prefix = int(one["prefix_length"][0])
        assert other["input_ids"].tolist() == one["input_ids"].tolist()
        assert other["label_positions"].tolist() == list(range(prefix, len(one["input_ids"])))
        assert other["label_ids"].tolist() == one["input_ids"][prefix:].tolist()
    assert causal.frame.predict_from == "previous"
    with pytest.raises(ConfigurationError, match="attention: causal concerns architecture: decoder"):
        wide("span_corruption", attention="causal")


def test_special_ids_inside_are_refused() -> None:
    rows = Rows.concatenate([one_sample(ids, [0]) for ids in ([300, 301], [300, 301, 302, 2])])
    with pytest.raises(ValueError, match="row 1 holds the reserved id 2 at 3"):
        wide("span_corruption").corrupt(rows, np.zeros(2, np.uint16), 1)


@pytest.mark.parametrize(
    "options",
    [{"input_length": 2048, "mean_noise_span_length": 2.0}, {"input_length": 900, "noise_density": 0.5, "mode": "X"},
     {"noise_density": 0.5, "target_length": 513, "final_sentinel": True}],
)  # fmt: skip
def test_too_few_sentinels_name_the_longest_input_that_has_enough(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"128 are enough for input_length: \d+$") as refused:
        build_objective({"name": "span_corruption", **options}, WORDS)
    enough = int(str(refused.value).rpartition(" ")[2])
    build_objective({"name": "span_corruption", **options, "input_length": enough}, WORDS)
    with pytest.raises(ConfigurationError, match="needs 129 sentinels"):
        build_objective({"name": "span_corruption", **options, "input_length": enough + 1}, WORDS)


def test_sentinels_are_added_only_where_that_is_enough() -> None:
    """A tokenizer that has all of ours cannot get more."""
    few = replace(WORDS, sentinels=WORDS.sentinels[:100])
    for words, length, added, shorter in (
        (few, 1500, True, False),
        (few, 2048, True, True),
        (WORDS, 2048, False, True),
    ):
        with pytest.raises(ConfigurationError) as refused:
            build_objective({"name": "span_corruption", "input_length": length, "mean_noise_span_length": 2.0}, words)
        assert ("tokenizer.add" in str(refused.value), "input_length:" in str(refused.value)) == (added, shorter)
