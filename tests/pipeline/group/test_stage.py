"""Group: train and held-out sets, cut once, in an order that nothing but uids decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.group.stage import GroupStage
from pipeline.rows import Rows
from pipeline.seeding import mix, order_key
from pipeline.shards import ShardSet, open_shards
from pipeline.splits import is_heldout
from tests.pipeline.token_sets import files_of, recipe, run_stage, write_token_set

LENGTHS = [(31 * document) % 90 for document in range(150)]
MLM = [{"name": "masked_lm", "max_length": 34}]


def rows_of_shard(shards: ShardSet, shard: int) -> Rows:
    blocks = np.flatnonzero(shards.index.shard == shard).tolist()
    return Rows.concatenate([shards.read_block(block) for block in blocks])


def documents_of(shards: ShardSet) -> set[bytes]:
    return {
        uid.tobytes()
        for shard in range(len(shards.manifest.shards))
        for uid in rows_of_shard(shards, shard).fixed["document_uid"]
    }


def test_train_and_heldout(tmp_path: Path) -> None:
    tokens = write_token_set(tmp_path, LENGTHS, shards=3)
    counts = run_stage(recipe(tmp_path, MLM, heldout=0.4), "group")
    uids = {uid.tobytes() for uid in tokens.fixed["document_uid"]}
    held = {uid for uid in uids if is_heldout(uid, 0.4, 1)}
    train, heldout = (
        open_shards(tmp_path / "group/packed-32-sep" / split, verify="shard") for split in ("train", "heldout")
    )
    assert [len(one.manifest.shards) for one in (train, heldout)] == [3, 1]
    assert documents_of(heldout) <= held
    assert documents_of(train) <= uids - held
    assert counts["documents"] == {"train": len(uids) - len(held), "heldout": len(held)}
    assert counts["tokens_in"] == sum(LENGTHS) == counts["tokens_in_samples"] + sum(counts["tokens_dropped"].values())
    assert counts["documents_dropped"] == {"empty": LENGTHS.count(0)}
    assert counts["samples"] == len(train) + len(heldout)
    assert train.manifest.languages == ("en", "de")
    by_language = train.manifest.totals.tokens_by_language
    assert sum(by_language.values()) == train.manifest.totals.tokens
    assert train.manifest.grouping is not None
    assert train.manifest.grouping.options == {"length": 32, "separator": "sep"}
    assert train.manifest.parents[0].digest == open_shards(tmp_path / "encode").digest


def test_rows_hold_the_shards_documents_by_hash_of_their_uid(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS, shards=3)
    run_stage(recipe(tmp_path, MLM, heldout=0.4), "group")
    train = open_shards(tmp_path / "group/packed-32-sep/train")
    for shard in range(3):
        rows = rows_of_shard(train, shard)
        assert (np.diff(mix(rows.fixed["uid"]).astype(object)) > 0).all()
        orders = [order_key(uid.tobytes(), "order", 1) for uid in rows.fixed["document_uid"]]
        assert {(order * 3) >> 64 for order in orders} == {shard}


def test_heldout_shards_split_the_range_of_orders(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS, shards=5)
    run_stage(recipe(tmp_path, MLM, heldout=0.6), "group")
    heldout = open_shards(tmp_path / "group/packed-32-sep/heldout")
    assert len(heldout.manifest.shards) == 3
    for shard in range(3):
        orders = [order_key(uid.tobytes(), "order", 1) for uid in rows_of_shard(heldout, shard).fixed["document_uid"]]
        assert {(order * 3) >> 64 for order in orders} == {shard}


def test_packed_rows_are_the_documents_in_hash_order(tmp_path: Path) -> None:
    tokens = write_token_set(tmp_path, LENGTHS, shards=1)
    run_stage(recipe(tmp_path, [{"name": "masked_lm", "max_length": 34, "separator": "none"}], heldout=0.0), "group")
    rows = rows_of_shard(open_shards(tmp_path / "group/packed-32-none/train"), 0)
    places = {uid.tobytes(): row for row, uid in enumerate(tokens.fixed["document_uid"])}
    order = sorted(places, key=lambda uid: order_key(uid + b"\0", "group", 1))
    stream = np.concatenate([tokens.columns["token_ids"][places[uid]] for uid in order])
    wanted = {stream[start : start + 32].tobytes() for start in range(0, len(stream), 32)}
    assert {row["ids"].tobytes() for row in rows} == wanted
    assert not (tmp_path / "group/packed-32-none/heldout").exists()


def test_units_in_any_order_and_again_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder, backwards in zip(folders, (False, True), strict=True):
        write_token_set(folder, LENGTHS)
        run_stage(recipe(folder, MLM), "group", backwards=backwards)
    first, second = (files_of(folder / "group") for folder in folders)
    assert first == second
    run_stage(recipe(folders[0], MLM), "group")
    assert files_of(folders[0] / "group") == first


def test_auto_makes_one_set_per_distinct_grouping(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS)
    entries = [
        *MLM,
        {"name": "masked_lm", "label": "again", "max_length": 34, "mask_rate": 0.3},
        {"name": "causal_lm", "max_length": 32},
        {"name": "document_rotation", "max_length": 40},
        {"name": "sentence_reordering", "max_length": 40},
    ]
    stage = GroupStage(recipe(tmp_path, entries))
    found = {one.label: (one.minimum.tokens, one.minimum.sentences) for one in stage.sets}
    assert found == {"packed-32-sep": (1, 1), "packed-32-eos": (2, 1), "document-38-none": (1, 1)}
    alone = GroupStage(recipe(tmp_path, entries[-1:]))
    assert [(one.minimum.tokens, one.minimum.sentences) for one in alone.sets] == [(1, 2)]
    assert stage.version() != alone.version(), "`auto` follows the objectives, so they are part of the key"


def test_a_second_objective_changes_no_row_of_the_first(tmp_path: Path) -> None:
    entries = [{"name": "sentence_reordering", "max_length": 40}, {"name": "document_rotation", "max_length": 40}]
    uids = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        write_token_set(folder, LENGTHS)
        run_stage(recipe(folder, entries[:count]), "group")
        rows = rows_of_shard(open_shards(folder / "group/document-38-none/train"), 0)
        enough = np.flatnonzero(rows.columns["sentence_starts"].lengths >= 2)
        uids.append({int(rows.fixed["uid"][row]): rows.columns["ids"][row].tolist() for row in enough})
    assert uids[0] == uids[1]


PAIRED = [
    *({"name": name, "max_length": 34} for name in ("next_sentence_prediction", "sentence_order_prediction")),
    {"name": "translation_lm", "max_length": 34},
    {"name": "text_to_text", "input_length": 34, "target_length": 60},
    {"name": "mixture", "parts": [{"name": "span_corruption", "label": str(length), "input_length": length}
                                  for length in (20, 40)]},
]  # fmt: skip


def test_new_objectives_and_other_orders_leave_every_byte_of_the_sets_there_were(tmp_path: Path) -> None:
    found = []
    for number, entries in enumerate((PAIRED, [*MLM, *reversed(PAIRED), {"name": "causal_lm", "max_length": 30}])):
        folder = tmp_path / str(number)
        write_token_set(folder, LENGTHS, shards=3)
        run_stage(recipe(folder, entries, heldout=0.3), "group", backwards=bool(number))
        found.append({name: data for name, data in files_of(folder / "group").items() if "/" in name})
    assert len({name.split("/")[0] for name in found[0]}) == 5
    assert found[0].items() <= found[1].items()


def test_every_token_of_pairs_is_accounted_for(tmp_path: Path) -> None:
    tokens = write_token_set(tmp_path, LENGTHS, shards=3)
    counts = run_stage(recipe(tmp_path, PAIRED, heldout=0.3), "group")
    both = len(tokens.columns["token_ids"].values) + len(tokens.columns["target_ids"].values)
    for label, splits in counts["sets"].items():
        total = both if label.startswith("parallel") else sum(LENGTHS)
        assert sum(found["tokens_in"] for found in splits.values()) == total
    assert counts["sets"]["parallel-31-none-cut=longer"]["train"]["tokens_dropped"]["empty"] > 0


def test_a_partner_is_of_the_same_split_and_shard(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS, shards=3)
    run_stage(recipe(tmp_path, PAIRED[:1], heldout=0.3), "group")
    for split in ("train", "heldout"):
        shards = open_shards(tmp_path / "group/sentence_pair-31-none-partner=True-short_rate=0.1" / split)
        for shard in range(len(shards.manifest.shards)):
            for row in rows_of_shard(shards, shard):
                partner = row["partner_document_uid"].tobytes()
                assert is_heldout(partner, 0.3, 1) == (split == "heldout")
                assert (order_key(partner, "order", 1) * len(shards.manifest.shards)) >> 64 == shard


def test_named_groupings(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS)
    group = {"groupings": [{"name": "packed", "length": 50}, {"name": "document", "length": 20}], "block_rows": 7}
    run_stage(recipe(tmp_path, MLM, group=group), "group")
    assert {path.name for path in (tmp_path / "group").glob("*-*-*")} == {"packed-50-none", "document-20-none"}
    assert open_shards(tmp_path / "group/packed-50-none/train").manifest.block_rows == 7


def test_an_empty_heldout_set_is_an_error(tmp_path: Path) -> None:
    write_token_set(tmp_path, [50] * 4)
    with pytest.raises(ConfigurationError, match=r"heldout.fraction 1e-09 selected no document"):
        run_stage(recipe(tmp_path, MLM, heldout=1e-9), "group")


def test_an_empty_train_set_is_an_error(tmp_path: Path) -> None:
    write_token_set(tmp_path, [1] * 40)
    entries = [{"name": "document_rotation", "max_length": 40}]
    with pytest.raises(ConfigurationError, match=r"train set of document-38-none is empty.*too_short"):
        run_stage(recipe(tmp_path, entries), "group")


def test_auto_without_objectives_is_an_error(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS)
    with pytest.raises(ConfigurationError, match="no `corrupt` key"):
        run_stage(recipe(tmp_path, None), "group")


def test_lost_tokens_are_noticed(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS)
    one = recipe(tmp_path, MLM)
    counts = run_stage(one, "group")
    counts["sets"]["packed-32-sep"]["train"]["tokens_in"] += 1
    with pytest.raises(IntegrityError, match=r"group packed-32-sep/train: counts do not add up"):
        GroupStage(one).check(counts)
