"""Group: train and held-out sets, cut once, in an order that nothing but uids decides."""

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.group.stage import GroupStage
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from tests.pipeline.group.group_rows import LENGTHS, MLM, PAIRED, documents_of, rows_of_shard
from tests.pipeline.token_sets import files_of, recipe, run_stage, write_token_set


def test_train_and_heldout(tmp_path):
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


def test_units_in_any_order_and_again_give_the_same_bytes(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder, backwards in zip(folders, (False, True), strict=True):
        write_token_set(folder, LENGTHS)
        run_stage(recipe(folder, MLM), "group", backwards=backwards)
    first, second = (files_of(folder / "group") for folder in folders)
    assert first == second
    run_stage(recipe(folders[0], MLM), "group")
    assert files_of(folders[0] / "group") == first


def test_a_second_objective_changes_no_row_of_the_first(tmp_path):
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


def test_new_objectives_and_other_orders_leave_every_byte_of_the_sets_there_were(tmp_path):
    found = []
    for number, entries in enumerate((PAIRED, [*MLM, *reversed(PAIRED), {"name": "causal_lm", "max_length": 30}])):
        folder = tmp_path / str(number)
        write_token_set(folder, LENGTHS, shards=3)
        run_stage(recipe(folder, entries, heldout=0.3), "group", backwards=bool(number))
        found.append({name: data for name, data in files_of(folder / "group").items() if "/" in name})
    assert len({name.split("/")[0] for name in found[0]}) == 5
    assert found[0].items() <= found[1].items()


def test_lost_tokens_are_noticed(tmp_path):
    write_token_set(tmp_path, LENGTHS)
    one = recipe(tmp_path, MLM)
    counts = run_stage(one, "group")
    counts["sets"]["packed-32-sep"]["train"]["tokens_in"] += 1
    with pytest.raises(IntegrityError, match=r"group packed-32-sep/train: counts do not add up"):
        GroupStage(one).check(counts)
