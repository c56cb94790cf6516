"""Another form, the same rows in the same order, and the same stream."""

import shutil

import numpy as np
import pytest

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.repack_shards import main, repack
from clozeline.train.data.stream.phases import as_phases
from clozeline.train.data.stream.reading_order import ReadingOrder
from tests.tools.small_run import example_sets


def rows_of(shards):
    """All rows of each shard."""
    blocks = [[] for _ in shards.manifest.shards]
    for block, shard in enumerate(shards.index.shard.tolist()):
        blocks[shard].append(shards.read_block(block))
    return [Rows.concatenate(found) for found in blocks]


def assert_same(left, right):
    assert list(left.fixed) == list(right.fixed)
    assert list(left.columns) == list(right.columns)
    for name, column in left.fixed.items():
        np.testing.assert_array_equal(column, right.fixed[name])
    for name, ragged in left.columns.items():
        np.testing.assert_array_equal(ragged.offsets, right.columns[name].offsets)
        np.testing.assert_array_equal(ragged.values, right.columns[name].values)


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption"])
def test_there_and_back_gives_the_same_bytes(shard_sets, tmp_path, label):
    source = open_shards(example_sets(shard_sets)[label][0])
    other = "tar" if source.manifest.container == "arrow" else "arrow"
    repack(source, tmp_path / "there", container=other, codec="none", block_rows=5)
    there = open_shards(tmp_path / "there")
    back = repack(there, tmp_path / "back", container=source.manifest.container, codec="zstd", level=3, block_rows=16)
    assert back.digest == source.digest
    for facts in source.manifest.shards:
        assert (tmp_path / "back" / facts.path).read_bytes() == source.path.with_name(facts.path).read_bytes()
    sides = [manifest.model_dump(mode="json") for manifest in (source.manifest, back)]
    assert {name for name in sides[0] if sides[0][name] != sides[1][name]} == {"parents", "checksum"}


def stream(shards, lanes=4):
    """Uid and variant of every row of two epochs, lane by lane."""
    order = ReadingOrder(as_phases(shards), 7, lanes, lanes)
    read = [shards.read_block(block).fixed for block in range(len(shards.index))]
    found = []
    for _, block, row in order.origins(0, 2 * order.orders[0].lane_rows).tolist():
        fixed = read[block]
        found.append(None if block < 0 else (int(fixed["uid"][row]), int(fixed["variant"][row])))
    return found


def test_the_stream_is_the_same_unless_blocks_change(shard_sets, tmp_path, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    assert main([str(manifest), "--output", str(tmp_path / "tar"), "--container", "tar", "--codec", "none"]) == 0
    assert "the stream is the same" in capsys.readouterr().out
    assert main([str(manifest), "--output", str(tmp_path / "blocks"), "--block-rows", "10"]) == 0
    assert "blocks of 10 rows instead of 16 give the stream another order" in capsys.readouterr().out
    before = stream(open_shards(manifest))
    assert stream(open_shards(tmp_path / "tar")) == before
    other = stream(open_shards(tmp_path / "blocks"))
    assert other != before
    assert sorted(map(str, other)) == sorted(map(str, before))


def test_a_token_set_keeps_its_tables(shard_sets, tmp_path):
    source = open_shards(shard_sets / "encode")
    repack(source, tmp_path / "encode", container="tar")
    assert_same(Rows.concatenate(rows_of(source)), Rows.concatenate(rows_of(open_shards(tmp_path / "encode"))))
    tables = [
        path for path in (shard_sets / "encode").glob("*.arrow") if path.name.startswith(("documents-", "token_"))
    ]
    assert len(tables) == 3
    for path in tables:
        assert (tmp_path / "encode" / path.name).read_bytes() == path.read_bytes()


def test_damage_is_not_carried_over(shard_sets, tmp_path, capsys):
    folder = shutil.copytree(example_sets(shard_sets)["masked_lm"][0].parent, tmp_path / "damaged")
    shard = sorted(folder.glob("shard-*"))[2]
    content = bytearray(shard.read_bytes())
    content[20] ^= 1  # in the schema, which no block's hash holds
    shard.write_bytes(content)
    assert main([str(folder), "--output", str(tmp_path / "out")]) == 65
    assert f"{shard}: expected SHA-256" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not list((tmp_path / "out").glob("*.tmp"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--container", "zip"], "invalid choice: 'zip'"),
        (["--codec", "none", "--level", "3"], "only zstd has levels"),
        (["--level", "20"], "invalid choice: 20"),
        (["--block-rows", "0"], "expected a number above 0, got 0"),
        (["--block-rows", "x"], "expected an integer"),
    ],
)
def test_wrong_use_ends_in_one_message(shard_sets, tmp_path, capsys, arguments, message):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    assert main([str(manifest), "--output", str(tmp_path / "out"), *arguments]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    (tmp_path / "file").touch()
    assert main([str(manifest), "--output", str(tmp_path / "file")]) == 64
