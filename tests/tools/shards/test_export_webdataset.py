"""Per-sample tars as others read them, row by row against the shards."""

import gc
import io
import json
import tarfile

import numpy as np
import pytest
import webdataset

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.export_webdataset import export, main
from tests.shard_sets import rows, write_set
from tests.tools.small_run import example_sets


def rows_of(shards):
    return [row for block in range(len(shards.index)) for row in shards.read_block(block)]


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files that webdataset leaves to the collector
def test_plain_webdataset_reads_every_row(shard_sets, tmp_path, label):
    manifest = example_sets(shard_sets)[label][0]
    names = list(export(manifest, tmp_path, rows=50)["files"])
    shards = open_shards(manifest)
    assert len(names) == -(-len(shards) // 50)
    found = list(webdataset.WebDataset([str(tmp_path / name) for name in names], shardshuffle=False))
    for row, sample in zip(rows_of(shards), found, strict=True):
        uid, variant = int(row.fixed["uid"]), int(row.fixed["variant"])
        assert sample["__key__"] == f"{uid:016x}-{variant}"
        facts = json.loads(sample["json"])
        assert facts["document_uid"] == row.fixed["document_uid"].tobytes().hex()
        assert (facts["uid"], facts["variant"], facts["language"]) == (f"{uid:016x}", variant, "en")
        assert facts["document_offset"] == row.fixed["document_offset"]
        for name, values in row.columns.items():
            stored = np.load(io.BytesIO(sample[f"{name}.npy"]), allow_pickle=False)
            assert stored.dtype == values.dtype
            np.testing.assert_array_equal(stored, values)
    gc.collect()


def test_token_sets_are_keyed_by_document(shard_sets, tmp_path):
    (name,) = export(shard_sets / "encode", tmp_path)["files"]
    with tarfile.open(tmp_path / name) as archive:
        keys = {member.name.split(".")[0] for member in archive}
        assert all((member.mtime, member.uid, member.mode) == (0, 0, 0o644) for member in archive)
    documents = {row.fixed["document_uid"].tobytes().hex() for row in rows_of(open_shards(shard_sets / "encode"))}
    assert keys == documents


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    manifest = str(example_sets(shard_sets)["masked_lm"][0])
    twice = write_set(tmp_path / "twice", [rows([4, 4])])
    assert main([str(twice.path), "--output", str(tmp_path / "out")]) == 65
    assert not (tmp_path / "out" / "export.json").exists()
    assert main([manifest, "--output", str(tmp_path / "out")]) == 0
    assert main([manifest, "--output", str(tmp_path / "out")]) == 64
    assert main([manifest, "--output", str(tmp_path / "out"), "--rows", "-1"]) == 64
    assert main([manifest]) == 64
    assert main([manifest, "--output", str(twice.path.parent)]) == 64
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert "two consecutive rows have the key 0000000000000004-0" in lines[0]
    assert "holds an export already" in lines[1]
    assert "holds a shard set already" in lines[4]
