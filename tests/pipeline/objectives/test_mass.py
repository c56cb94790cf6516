"""MASS: one fragment, its place and its roles, for the decoder or as labels; the kernel against a plain loop."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pipeline.seeding import SLOTS, kernel_keys, words
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, one_sample, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.objectives.runner import corrupt, variants_of, wide
from tests.pipeline.word_cases import slow_roles

ENCODER = {"architecture": "encoder"}
LENGTHS = [1, 2, 3, 5, 17, 64, 300, 568] * 40


def slow(ids: list[int], key: np.uint64, percent: int, edge: int) -> tuple[list[int], list[int], int]:
    """Framed input, fragment, start; `edge` in parts per million."""
    taken = min(len(ids), max(1, (len(ids) * percent + 50) // 100))
    last = len(ids) - taken
    place, border = (int(word) >> 32 for word in words(np.array([key]), SLOTS, 2)[0].tolist())
    start = (place * (last + 1)) >> 32
    draw = (border * 10**6) >> 32
    if draw < edge:
        start = 0
    elif draw < 2 * edge:
        start = last
    row = [1, *ids, 2]
    fragment = ids[start : start + taken]
    row[1 + start : 1 + start + taken] = slow_roles(key, fragment, range(taken), WORDS)
    return row, fragment, start + 1


@pytest.mark.parametrize("edge", [0.0, 0.2])
@pytest.mark.parametrize("percent", [1, 50, 100])
def test_equals_a_plain_loop(percent: int, edge: float) -> None:
    options: dict[str, Any] = {"mask_rate": percent / 100, "edge_share": edge}
    rows = samples(LENGTHS)
    keys = kernel_keys(1, "mass", rows.fixed["uid"], np.zeros(len(rows), np.uint16))
    pairs, blocks = (corrupt(wide("mass", **options, **more), rows) for more in ({}, ENCODER))
    for key, sample, pair, block in zip(keys, rows, pairs, blocks, strict=True):
        row, fragment, start = slow(sample["ids"].tolist(), key, percent, int(edge * 10**6))
        assert pair["input_ids"].tolist() == block["input_ids"].tolist() == row
        assert pair["target_ids"].tolist() == block["label_ids"].tolist() == fragment
        assert pair["target_start"].tolist() == [start]
        assert block["label_positions"].tolist() == list(range(start, start + len(fragment)))


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
    original, total = examples.columns["target_ids"].values, 100_000
    same = 1 / len(WORDS.replaceable)
    assert len(written) == total
    assert within_sigmas(int((written == MASK).sum()), total, 0.8)
    assert within_sigmas(int(((written != MASK) & (written != original)).sum()), total, 0.1 * (1 - same))


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
    with pytest.raises(ValueError, match=r"'mass' .* special id 2 at 1"):
        corrupt(wide("mass"), one_sample([300, SEP, 301], [0]))
