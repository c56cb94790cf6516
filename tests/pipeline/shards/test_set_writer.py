"""Sets whose shards are written by units in any order, with the manifest last."""

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.block_options import Compression
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import ColumnSpec, SetWriter, open_shards
from clozeline.pipeline.shards.manifest import SHARD_LIMIT
from tests.shard_sets import list_column

COLUMNS = [ColumnSpec("number", "uint16", "fixed", "a number"), list_column("ids")]
FACTS = {
    "name": "toy",
    "kind": "tokens",
    "seed": 1,
    "tokenizer": {"name": "word", "fingerprint": "ab" * 32, "vocab_size": 9, "special_ids": {}, "sentinels": []},
}


def rows(shard):
    numbers = np.arange(10 * shard, 10 * shard + 5, dtype=np.uint16)
    return Rows({"number": numbers}, {"ids": Ragged.from_lists([[shard] * 3] * 5, np.uint16)})


def write(folder, path, order):
    writer = SetWriter(path, 3, COLUMNS, block_rows=2, compression=Compression(codec="none"))
    for shard in order:
        writer.write_shard(Output(folder), shard, rows(shard))
    writer.write_manifest(Output(folder), **FACTS)
    return folder / path


def test_shards_stand_in_their_order_whatever_the_order_of_writing(tmp_path):
    there, back = write(tmp_path / "a", "set/train", [0, 1, 2]), write(tmp_path / "b", "set/train", [2, 0, 1])
    shards = open_shards(there)
    numbers = [shards.read_block(block).fixed["number"].tolist() for block in range(len(shards.index))]
    assert numbers == [[0, 1], [2, 3], [4], [10, 11], [12, 13], [14], [20, 21], [22, 23], [24]]
    assert shards.manifest.compression.codec == "none"
    assert (there / "manifest.json").read_bytes() == (back / "manifest.json").read_bytes()


def test_more_shards_than_a_manifest_may_list_are_refused_before_the_first_is_written(tmp_path):
    SetWriter("set/train", SHARD_LIMIT, COLUMNS, block_rows=2)
    with pytest.raises(ConfigurationError, match=r"set/train: 100001 shards, at most 100000 are in a set: .*variants"):
        SetWriter("set/train", SHARD_LIMIT + 1, COLUMNS, block_rows=2)


def test_a_set_may_be_the_folder_of_the_outputs_itself(tmp_path):
    folder = write(tmp_path, "", [0, 1, 2])
    assert sorted(path.name for path in folder.glob("*.arrow")) == [
        "index.arrow", *(f"shard-{shard:05d}-of-00003.arrow" for shard in range(3)),
    ]  # fmt: skip
    assert len(open_shards(folder).manifest.shards) == 3
