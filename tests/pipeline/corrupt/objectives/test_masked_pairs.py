"""Features of masked pairs: two framed segments, labels in both, and where the second one starts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clozeline.pipeline.corrupt.objectives._masked_pairs import (
    FRAME_TOKENS,
    MaskedPair,
    MaskedPairOptions,
    Pairs,
)
from clozeline.pipeline.corrupt.objectives._masked_rows import choose_tokens, maskable_lengths
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.rows import UNDO, Feature, Ragged, SampleBatch
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked
from tests.pipeline.corruption_cases import SEP, WORDS, samples
from tests.pipeline.pair_cases import frame, slow_masks, unmasked


class Halves(MaskedPair):
    """Rows cut in the middle, the second half first."""

    name = "halves"
    heads = ("masked_lm",)
    Options = MaskedPairOptions

    def pair_features(self) -> tuple[Feature, ...]:
        return (Feature("cut", "uint16", UNDO, "tokens of the second half"),)

    def pairs(self, samples: SampleBatch, keys: NDArray[np.uint64]) -> Pairs:
        ids = samples.columns["ids"]
        half = ids.lengths // 2
        starts = np.stack((ids.offsets[:-1] + half, ids.offsets[:-1]), axis=1)
        lengths = np.stack((ids.lengths - half, half), axis=1)
        extra: Mapping[str, Ragged] = {"cut": Ragged.from_matrix((ids.lengths - half).astype(np.uint16)[:, None])}
        return Pairs((ids.values,), starts, lengths, extra)


def halves(**options: float) -> Halves:
    objective = Halves(MaskedPairOptions(max_length=600, **options), WORDS, "halves")
    objective.grouping = objective.make_grouping("document", 597)
    return objective


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_pairs_equal_a_plain_loop(specials: float) -> None:
    objective = halves()
    rows = samples([20 + (37 * row) % 90 for row in range(200)], specials=specials)
    for key, sample, example in keyed(objective, rows):
        ids = sample["ids"].tolist()
        half = len(ids) // 2
        whole = frame(ids[half:], ids[:half])
        assert masked(example) == slow_masks(whole, key, 150_000, WORDS)
        assert example["segment_starts"].tolist() == [0, len(ids) - half + 2]
        assert example["cut"].tolist() == [len(ids) - half]
        assert unmasked(example) == whole == objective.uncorrupt(example).tolist()
        first, second = objective.segments_of(np.array(whole), example)
        assert (first.tolist(), second.tolist()) == (ids[half:], ids[:half])
        assert objective.add_special_tokens_to_pair(first, second).tolist() == whole
        assert len(whole) == len(ids) + FRAME_TOKENS


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 2**32))
def test_labels_chosen_without_looking_at_the_tokens_are_those_chosen_by_looking(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    """Rows without special tokens inside take a short way; both ways must agree."""
    objective = halves(mask_rate=0.4)
    lengths = np.array(sizes)
    pool = np.arange(400, 400 + lengths.sum(), dtype=np.uint16)
    starts = (np.cumsum(lengths.reshape(-1)) - lengths.reshape(-1)).reshape(-1, 2)
    keys = np.arange(1, 1 + len(sizes), dtype=np.uint64) * np.uint64(2 * seed + 1)
    pairs = Pairs((pool,), starts, lengths, {})
    rows = objective.join_pairs(pairs)
    short, looking = objective.select(keys, rows, pairs), choose_tokens(keys, rows, objective.special, objective.budget)
    assert short.values.tolist() == looking.values.tolist()
    assert short.offsets.tolist() == looking.offsets.tolist()
    assert not WORDS.special[rows.values[short.values]].any()


def test_labels_are_at_most_as_many_as_asked() -> None:
    examples = corrupt(halves(mask_rate=0.5, max_labels=7), samples([4, 14, 16, 100]))
    assert examples.columns["label_ids"].lengths.tolist() == [2, 7, 7, 7]


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 20), max_size=9), max_size=6))
def test_maskable_lengths_count_what_is_not_special(rows: list[list[int]]) -> None:
    special = IdSet(np.arange(30) < 10)
    found = maskable_lengths(Ragged.from_lists(rows, np.uint16), special)
    assert found.tolist() == [sum(token >= 10 for token in row) for row in rows]


def test_a_row_whose_frame_is_elsewhere_is_no_pair() -> None:
    objective = halves()
    (example,) = corrupt(objective, samples([20]))
    row = objective.uncorrupt(example)
    for place in (0, int(example["segment_starts"][1]) - 1, len(row) - 1):
        broken = row.copy()
        broken[place] = 999
        with pytest.raises(ValueError, match=r"^no pair of segments with the second at 12, but \[.*999"):
            objective.segments_of(broken, example)
    assert SEP in row
