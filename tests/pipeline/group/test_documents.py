import numpy as np
import pytest

from clozeline.pipeline.group.documents import heldout_documents, place_key, train_documents
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout, shard_of
from clozeline.seeding import order_key
from tests.pipeline.group.group_rows import LENGTHS, MLM, rows_of_shard
from tests.pipeline.token_sets import recipe, run_stage, write_token_set


def test_heldout_shards_split_the_range_of_orders(tmp_path):
    write_token_set(tmp_path, LENGTHS, shards=5)
    run_stage(recipe(tmp_path, MLM, heldout=0.6), "group")
    heldout = open_shards(tmp_path / "group/packed-32-sep/heldout")
    assert len(heldout.manifest.shards) == 3
    for shard in range(3):
        orders = [order_key(uid.tobytes(), "order", 1) for uid in rows_of_shard(heldout, shard).fixed["document_uid"]]
        assert {(order * 3) >> 64 for order in orders} == {shard}


def test_packed_rows_are_the_documents_in_hash_order(tmp_path):
    tokens = write_token_set(tmp_path, LENGTHS, shards=1)
    run_stage(recipe(tmp_path, [{"name": "masked_lm", "max_length": 34, "separator": "none"}], heldout=0.0), "group")
    rows = rows_of_shard(open_shards(tmp_path / "group/packed-32-none/train"), 0)
    places = {uid.tobytes(): row for row, uid in enumerate(tokens.fixed["document_uid"])}
    order = sorted(places, key=lambda uid: order_key(uid + b"\0", "group", 1))
    stream = np.concatenate([tokens.columns["token_ids"][places[uid]] for uid in order])
    wanted = {stream[start : start + 32].tobytes() for start in range(0, len(stream), 32)}
    assert {row["ids"].tobytes() for row in rows} == wanted
    assert not (tmp_path / "group/packed-32-none/heldout").exists()


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_every_document_is_in_one_split_and_one_shard(tmp_path, shards):
    tokens = write_token_set(tmp_path, LENGTHS, shards=3)
    folder = tmp_path / "encode"
    train = [train_documents(folder, shard, 0.4, 1) for shard in range(3)]
    held = [heldout_documents(folder, shard, shards, 0.4, 1) for shard in range(shards)]
    ids = {uid.tobytes(): tokens.columns["token_ids"][row] for row, uid in enumerate(tokens.fixed["document_uid"])}
    uids = [[uid.tobytes() for uid in rows.fixed["document_uid"]] for rows in (*train, *held)]
    assert sorted(uid for part in uids for uid in part) == sorted(ids)
    for part, rows in zip(uids, (*train, *held), strict=True):
        assert part == sorted(part, key=lambda uid: place_key(uid, 0, 1))
        for row, uid in enumerate(part):
            assert rows.columns["token_ids"][row].tolist() == ids[uid].tolist()
    assert all(is_heldout(uid, 0.4, 1) for part in uids[3:] for uid in part)
    assert [{shard_of(uid, shards, 1) for uid in part} for part in uids[3:]] == [{n} for n in range(shards)]


def test_a_shard_without_documents_has_the_columns_of_a_full_one(tmp_path):
    write_token_set(tmp_path, [9], shards=2)
    none, some = sorted((train_documents(tmp_path / "encode", shard, 0.0, 1) for shard in (0, 1)), key=len)
    assert (len(none), len(some)) == (0, 1)
    assert {name: values.dtype for name, values in none.fixed.items()} == {
        name: values.dtype for name, values in some.fixed.items()
    }
    assert set(none.columns) == {"token_ids", "sentence_starts"}
    for name, column in none.columns.items():
        assert column.values.dtype == some.columns[name].values.dtype
