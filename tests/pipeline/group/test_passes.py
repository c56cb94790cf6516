import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.seeding import mix, order_key
from tests.pipeline.group.group_rows import LENGTHS, MLM, PAIRED, rows_of_shard
from tests.pipeline.token_sets import recipe, run_stage, write_token_set


def test_rows_hold_the_shards_documents_by_hash_of_their_uid(tmp_path):
    write_token_set(tmp_path, LENGTHS, shards=3)
    run_stage(recipe(tmp_path, MLM, heldout=0.4), "group")
    train = open_shards(tmp_path / "group/packed-32-sep/train")
    for shard in range(3):
        rows = rows_of_shard(train, shard)
        assert (np.diff(mix(rows.fixed["uid"]).astype(object)) > 0).all()
        orders = [order_key(uid.tobytes(), "order", 1) for uid in rows.fixed["document_uid"]]
        assert {(order * 3) >> 64 for order in orders} == {shard}


def test_every_token_of_pairs_is_accounted_for(tmp_path):
    tokens = write_token_set(tmp_path, LENGTHS, shards=3)
    counts = run_stage(recipe(tmp_path, PAIRED, heldout=0.3), "group")
    both = len(tokens.columns["token_ids"].values) + len(tokens.columns["target_ids"].values)
    for label, splits in counts["sets"].items():
        total = both if label.startswith("parallel") else sum(LENGTHS)
        assert sum(found["tokens_in"] for found in splits.values()) == total
    assert counts["sets"]["parallel-31-none-cut=longer"]["train"]["tokens_dropped"]["empty"] > 0


def test_a_partner_is_of_the_same_split_and_shard(tmp_path):
    write_token_set(tmp_path, LENGTHS, shards=3)
    run_stage(recipe(tmp_path, PAIRED[:1], heldout=0.3), "group")
    for split in ("train", "heldout"):
        shards = open_shards(tmp_path / "group/sentence_pair-31-none-partner=True-short_rate=0.1" / split)
        for shard in range(len(shards.manifest.shards)):
            for row in rows_of_shard(shards, shard):
                partner = row["partner_document_uid"].tobytes()
                assert is_heldout(partner, 0.3, 1) == (split == "heldout")
                assert (order_key(partner, "order", 1) * len(shards.manifest.shards)) >> 64 == shard


def test_an_empty_heldout_set_is_an_error(tmp_path):
    write_token_set(tmp_path, [50] * 4)
    with pytest.raises(ConfigurationError, match=r"heldout.fraction 1e-09 selected no document"):
        run_stage(recipe(tmp_path, MLM, heldout=1e-9), "group")


def test_an_empty_train_set_is_an_error(tmp_path):
    write_token_set(tmp_path, [1] * 40)
    entries = [{"name": "document_rotation", "max_length": 40}]
    with pytest.raises(ConfigurationError, match=r"train set of document-38-none is empty.*too_short"):
        run_stage(recipe(tmp_path, entries), "group")
