from dataclasses import replace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import DamagedBlock, open_shards, write_manifest, write_shard
from clozeline.pipeline.shards.column_set import JoinedShards
from tests.shard_sets import TOKENIZER, list_column, objective, ordered, write_set

SPEC = list_column("score", "float16")


@pytest.fixture
def shards(tmp_path):
    """Two shards of 11 and 6 rows, in blocks of 4."""
    parts = [ordered(range(1, 12)), ordered(range(20, 26))]
    return write_set(tmp_path / "set", parts, objective=objective("encoder"), kind="examples")


def scores_of(rows):
    """Half of each token id."""
    ids = rows.columns["input_ids"]
    return Ragged((ids.values / 2).astype(np.float16), ids.offsets)


def write_columns(folder, shards, *, name="score", rows=None, **changes):
    """A column set of all blocks, or of the first `rows` rows of each shard."""
    folder.mkdir()
    spec = replace(SPEC, name=name)
    infos = []
    for shard in range(len(shards.manifest.shards)):
        blocks = [shards.read_block(block) for block in np.flatnonzero(shards.index.shard == shard)]
        parts = [Rows({}, {name: scores_of(block)}) for block in blocks]
        content = Rows.concatenate(parts)
        keep = np.arange(len(content) if rows is None else rows)
        path = folder / f"shard-{shard}.arrow"
        infos.append(write_shard(path, content.take(keep), [spec], block_rows=4))
    facts  = {
        "name": "scores", "kind": "columns", "seed": 0, "tokenizer": TOKENIZER, "columns": [spec], "block_rows": 4,
        "container": "arrow", "codec": "none", "shards": infos, "output": Output(folder),
        "parents": [{"name": "set", "digest": shards.digest, "role": "rows"}], **changes,
    }  # fmt: skip
    write_manifest(folder, **facts)
    return open_shards(folder)


def test_columns_are_read_with_their_rows(shards, tmp_path):
    joined = JoinedShards(shards, [write_columns(tmp_path / "columns", shards)])
    assert [spec.name for spec in joined.columns] == [*[spec.name for spec in shards.columns], "score"]
    assert joined.digest == shards.digest
    for block in range(len(shards.index)):
        plain, rows = shards.read_block(block), joined.read_block(block)
        for name, values in plain.fixed.items():
            np.testing.assert_array_equal(rows.fixed[name], values)
        ids = plain.columns["input_ids"]
        np.testing.assert_array_equal(rows.columns["input_ids"].values, ids.values)
        np.testing.assert_array_equal(rows.columns["score"].values, np.asarray([one / 2 for one in ids.values]))
        np.testing.assert_array_equal(rows.columns["score"].offsets, ids.offsets)
        assert rows.columns["score"].values.dtype == np.float16
        assert set(joined.read_block(block, ["input_ids"]).columns) == {"input_ids"}
        assert set(joined.read_block(block, ["score"]).columns) == {"score"}


def test_the_content_of_columns_is_part_of_their_digest(shards, tmp_path):
    first, same, other = (
        JoinedShards(shards, [write_columns(tmp_path / name, shards, config=config)])
        for name, config in (("a", {"k": 1}), ("b", {"k": 1}), ("c", {"k": 2}))
    )
    assert first.columns_digest == same.columns_digest != other.columns_digest


def test_damage_of_a_column_set_is_noticed(shards, tmp_path):
    columns = write_columns(tmp_path / "columns", shards)
    entry, path = columns.index, columns.shard_path(0)
    raw = bytearray(path.read_bytes())
    raw[int(entry.offset[1]) + int(entry.length[1]) - 3] ^= 1
    path.write_bytes(raw)
    joined = JoinedShards(shards, [columns])
    joined.read_block(0)
    with pytest.raises(DamagedBlock, match=r"columns/shard-0\.arrow"):
        joined.read_block(1)
    joined.read_block(1, ["input_ids"])


def test_a_block_in_quarantine_of_either_set_is_not_read(shards, tmp_path):
    columns = write_columns(tmp_path / "columns", shards)
    entry = '[{"shard": "shard-0.arrow", "block": 2, "reason": "test"}]'
    (tmp_path / "columns" / "quarantine.json").write_text(entry)
    joined = JoinedShards(shards, [open_shards(tmp_path / "columns")])
    assert joined.quarantined == {2}
    assert joined.quarantine.sha256 != ""
    assert JoinedShards(shards, [columns]).quarantine == shards.quarantine


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parents": [{"name": "old", "digest": "0" * 64, "role": "rows"}]}, r"columns of old \(digest 0000"),
        ({"variants": 3}, "3 variants, 17 rows in 5 blocks, .* has 1 variants"),
        ({"rows": 5}, "1 variants, 10 rows in 4 blocks, .* 17 rows in 5 blocks"),
        ({"name": "input_ids"}, "input_ids is a column of another set here"),
    ],
)
def test_columns_of_other_rows_are_refused(shards, tmp_path, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        JoinedShards(shards, [write_columns(tmp_path / "columns", shards, **changes)])


def test_samples_and_other_kinds_are_refused(shards, tmp_path):
    parts = [ordered(range(1, 12)), ordered(range(20, 26))]
    samples = write_set(tmp_path / "samples", parts, kind="samples", objective=None)
    with pytest.raises(ConfigurationError, match="online corruption makes other labels"):
        JoinedShards(samples, [write_columns(tmp_path / "columns", shards)])
    with pytest.raises(ConfigurationError, match="expected a column set, as `clozeline teach` writes, got examples"):
        JoinedShards(shards, [shards])
