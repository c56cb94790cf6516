"""MASS: one fragment, its place and its roles, for the decoder or as labels.

The kernel against a plain loop.
"""

import pytest

from clozeline.seeding import SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import SEP, WORDS, one_sample, samples
from tests.pipeline.word_cases import drawn, masked_by_hand

ENCODER = {"architecture": "encoder"}


def slow(ids, key, percent, edge):
    """Framed input, places of the fragment, and the fragment; `edge` in parts per million."""
    taken = min(len(ids), max(1, (len(ids) * percent + 50) // 100))
    last = len(ids) - taken
    place, border = (word >> 32 for word in drawn(key, SLOTS, 2))
    draw = (border * 10**6) >> 32
    start = 0 if draw < edge else last if draw < 2 * edge else (place * (last + 1)) >> 32
    return masked_by_hand(key, [1, *ids, 2], range(start + 1, start + 1 + taken), WORDS)


@pytest.mark.parametrize("edge", [0.0, 0.2])
@pytest.mark.parametrize("percent", [1, 50, 100])
def test_equals_a_plain_loop(percent, edge):
    options = {"mask_rate": percent / 100, "edge_share": edge}
    rows = samples([1, 2, 3, 5, 17, 64, 300, 568] * 40)
    blocks = corrupt(wide("mass", **options, **ENCODER), rows)
    for (key, sample, pair), block in zip(
        keyed(wide("mass", **options), rows), blocks, strict=True
    ):
        row, places, fragment = slow(
            sample["ids"].tolist(),
            key,
            percent,
            int(edge * 10**6),
        )
        assert masked(block) == (row, places, fragment)
        assert pair["input_ids"].tolist() == row
        assert pair["target_ids"].tolist() == fragment
        assert pair["target_start"].tolist() == places[:1]


def test_the_decoder_begins_with_cls_and_edits_text_alone():
    assert wide("mass").heads == ("lm",)
    assert wide("mass", **ENCODER).heads == ("masked_lm",)
    assert wide("mass").form.decoder_start == WORDS.specials["cls"]

    with pytest.raises(ValueError, match=r"'mass' .* reserved id 2 at position 1"):
        corrupt(wide("mass"), one_sample([300, SEP, 301], [0]))
