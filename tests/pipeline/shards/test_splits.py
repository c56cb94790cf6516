"""Training and held-out sets."""

import pytest

from clozeline.pipeline.shards.layout import Splits, is_heldout

UIDS = [number.to_bytes(16, "big") for number in range(2000)]


def test_held_out_documents_stay_held_out_at_larger_fractions():
    at = {share: {uid for uid in UIDS if is_heldout(uid, share, 1)} for share in (0.0, 0.05, 0.2, 1.0)}
    assert at[0.0] == set()
    assert at[0.05] < at[0.2] < at[1.0] == set(UIDS)
    assert 330 < len(at[0.2]) < 470
    assert {uid for uid in UIDS if is_heldout(uid, 0.2, 2)} != at[0.2]


@pytest.mark.parametrize(("shards", "fraction", "heldout"), [(8, 0.0, 0), (8, 0.01, 1), (8, 0.25, 2), (1, 0.9, 1)])
def test_units_are_training_shards_and_then_held_out_ones(shards, fraction, heldout):
    splits = Splits(shards, fraction)
    assert splits.heldout == heldout
    units = [splits.of_unit(unit) for unit in range(shards + heldout)]
    wanted = [("train", shard, shards) for shard in range(shards)]
    assert units == wanted + [("heldout", shard, heldout) for shard in range(heldout)]
    assert splits.items() == [("train", shards)] + ([("heldout", heldout)] if heldout else [])
