"""Every visit that the tool names is one that the batches show, and none is left out."""

from __future__ import annotations

import json

import pytest

from pipeline.shards import open_shards
from tests.shard_sets import toy_set
from tests.tools.small_run import example_sets
from tests.tools.test_explain_batch import mixed, run_directory
from tools.explain_batch import explain
from tools.feed import Feed
from tools.where_is import main, visits
from train.phases import as_phases


@pytest.mark.parametrize(("sizes", "lanes", "global_batch"), [([9, 2, 13], 2, 6), ([3], 4, 4), ([33, 8], 4, 8)])
def test_visits_are_the_inverse_of_batches(tmp_path, sizes, lanes, global_batch):
    feed = Feed(as_phases(toy_set(tmp_path, sizes)), 5, lanes, global_batch)
    epochs = 3
    shown = {}
    for samples in range(0, (epochs + 1) * feed.orders[0].lane_rows * lanes, global_batch):
        for facts in explain(feed, samples):
            if "sample" in facts and facts["epoch"] < epochs:
                shown[facts["sample"], facts["epoch"]] = (samples, facts["place"], facts["lane"])
    assert len(shown) == epochs * sum(sizes)
    for uid in range(1, sum(sizes) + 1):
        for one in visits(feed, uid, range(epochs)):
            assert shown[f"{uid:016x}", one["epoch"]] == (one["samples"], one["place"], one["lane"])
            assert one["step"] == one["samples"] // global_batch + 1


def test_visits_of_mixtures_and_phases_are_the_inverse_of_batches(tmp_path):
    feed = mixed(tmp_path)
    shown = {}
    for step in range(1, 60):
        for facts in explain(feed, feed.samples(step)):
            if "sample" in facts:
                shown.setdefault(facts["sample"], set()).add((facts["set"], facts["epoch"], step, facts["place"]))
    assert {name for found in shown.values() for name, *_ in found} == {"toy/train", "other"}
    for uid in range(1, 25):
        found = {(one["set"], one["epoch"], one["step"], one["place"]) for one in visits(feed, uid, range(40))}
        assert {one for one in found if one[2] < 60} == shown.get(f"{uid:016x}", set())


def test_each_variant_is_found_in_its_shard(shard_sets, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    shards = open_shards(manifest)
    uid = int(shards.read_block(5).fixed["uid"][3])
    assert main([str(manifest), "--uid", f"{uid:016x}", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["variant"] for one in found) == [0, 1]
    for one in found:
        again = explain(Feed(as_phases(shards), 0, 64, 64), one["samples"])[one["place"]]
        assert again["sample"] == f"{uid:016x}"
        assert [again[name] for name in ("variant", "shard", "block", "row", "lane")] == [
            one[name] for name in ("variant", "shard", "block", "row", "lane")
        ]
    assert main([str(manifest), "--uid", f"{uid:x}", "--variant", "1", "--epoch", "7", "--epochs", "2"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines()] == ["epoch 7", "epoch 8"]
    assert out.count("variant 1: shard-0000") == 2


def test_a_run_says_which_visits_are_over(shard_sets, tmp_path, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    run = run_directory(tmp_path, manifest, 400)  # of 8 steps of 8 rows by its configuration
    uid = f"{int(open_shards(manifest).read_block(0).fixed['uid'][0]):x}"
    assert main(["--run", str(run), "--uid", uid, "--epochs", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    ends = [int(line.split(" to ")[1].split(",")[0]) for line in lines]
    assert [": seen;" in line for line in lines] == [end <= 400 for end in ends]
    assert main(["--run", str(run), "--uid", uid]) == 0
    assert {line.split(":")[0] for line in capsys.readouterr().out.splitlines()} == {"epoch 0"}


def test_samples_that_the_stream_corrupts_have_a_variant_an_epoch(shard_sets, tmp_path, capsys):
    samples = example_sets(shard_sets)["masked_lm"][1]
    run = run_directory(tmp_path, samples, 0, data__corrupt={"name": "masked_lm", "max_length": 48})
    uid = f"{int(open_shards(samples).read_block(1).fixed['uid'][2]):x}"
    assert main(["--run", str(run), "--uid", uid, "--epoch", "65534", "--epochs", "4", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["epoch"], one["variant"]) for one in found] == [(65534, 65534), (65535, 65535), (65536, 0), (65537, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--uid", "xyz"], "expected up to 16 hexadecimal digits, got 'xyz'"),
        (["--uid", "1" * 17], "expected up to 16 hexadecimal digits"),
        (["--uid", "ffff"], "--uid 000000000000ffff: no such sample in"),
        (["--uid", "1", "--variant", "3"], "no such variant 3 of the sample in epochs 0 to 0"),
        (["--uid", "1", "--epochs", "0"], "expected a number above 0"),
        ([], "required: --uid"),
    ],
)
def test_wrong_use_ends_in_one_message(tmp_path, capsys, arguments, message):
    assert main([str(toy_set(tmp_path, [9]).path), *arguments]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
