"""MASS: one fragment, its place and its roles, for the decoder or as labels; the kernel against a plain loop."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from clozeline.seeding import SLOTS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, roles_are_plausible, variants_of, wide
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, one_sample, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.word_cases import masked_by_hand

ENCODER = {"architecture": "encoder"}
LENGTHS = [1, 2, 3, 5, 17, 64, 300, 568] * 40


def slow(ids: list[int], key: np.uint64, percent: int, edge: int) -> tuple[list[int], list[int], list[int]]:
    """Framed input, places of the fragment, and the fragment; `edge` in parts per million."""
    taken = min(len(ids), max(1, (len(ids) * percent + 50) // 100))
    last = len(ids) - taken
    place, border = (int(word) >> 32 for word in random_bits(np.array([key]), SLOTS, 2)[0].tolist())
    start = (place * (last + 1)) >> 32
    draw = (border * 10**6) >> 32
    if draw < edge:
        start = 0
    elif draw < 2 * edge:
        start = last
    row, places, fragment = masked_by_hand(key, [1, *ids, 2], range(start + 1, start + 1 + taken), WORDS)
    return row, places, fragment


@pytest.mark.parametrize("edge", [0.0, 0.2])
@pytest.mark.parametrize("percent", [1, 50, 100])
def test_equals_a_plain_loop(percent: int, edge: float) -> None:
    options: dict[str, Any] = {"mask_rate": percent / 100, "edge_share": edge}
    rows = samples(LENGTHS)
    blocks = corrupt(wide("mass", **options, **ENCODER), rows)
    for (key, sample, pair), block in zip(keyed(wide("mass", **options), rows), blocks, strict=True):
        row, places, fragment = slow(sample["ids"].tolist(), key, percent, int(edge * 10**6))
        assert masked(block) == (row, places, fragment)
        assert pair["input_ids"].tolist() == row
        assert pair["target_ids"].tolist() == fragment
        assert pair["target_start"].tolist() == places[:1]


def test_places_are_uniform_and_edges_as_likely_as_asked() -> None:
    text = list(range(200, 220))
    found = Counter(int(example["target_start"][0]) for example in variants_of(wide("mass"), text, count=11_000))
    assert set(found) == set(range(1, 12))
    assert chi_square_is_plausible(list(found.values()), np.full(11, 1000.0), 10)
    edged = variants_of(wide("mass", edge_share=0.2), text, count=10_000)
    found = Counter(int(example["target_start"][0]) for example in edged)
    assert within_sigmas(found[1], 10_000, 0.2 + 0.6 / 11)
    assert within_sigmas(found[11], 10_000, 0.2 + 0.6 / 11)
    assert within_sigmas(found[6], 10_000, 0.6 / 11)


def test_shares_of_the_three_roles() -> None:
    examples = corrupt(wide("mass"), samples([500] * 400))
    starts = examples.columns["target_start"].values.astype(int)
    written = np.concatenate([
        row[start : start + 250]
        for row, start in zip(examples.columns["input_ids"].values.reshape(400, -1), starts, strict=True)
    ])  # fmt: skip
    assert len(written) == 100_000
    assert roles_are_plausible(written, examples.columns["target_ids"].values)


def test_one_token_is_masked_lm_and_all_tokens_a_decoder() -> None:
    (one,) = variants_of(wide("mass", mask_share=1.0, random_share=0), [300], count=1)
    assert [part.tolist() for part in one.columns.values()] == [[1, MASK, 2], [300], [1]]
    text = list(range(200, 210))
    (all_,) = variants_of(wide("mass", mask_rate=1.0, mask_share=1.0, random_share=0), text, count=1)
    assert [part.tolist() for part in all_.columns.values()] == [[1, *[MASK] * 10, 2], text, [1]]


def test_each_architecture_has_its_head() -> None:
    assert wide("mass").heads == ("lm",)
    assert wide("mass", **ENCODER).heads == ("masked_lm",)
    assert wide("mass").frame.decoder_start == WORDS.specials["cls"]


def test_special_tokens_inside_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'mass' .* reserved id 2 at 1"):
        corrupt(wide("mass"), one_sample([300, SEP, 301], [0]))
