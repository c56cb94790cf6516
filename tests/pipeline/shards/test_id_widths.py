"""The whole way from token documents to examples at the size where an id no longer fits into 16 bits."""

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline.shards import DamagedBlock, open_shards
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.shard_sets import change_manifest

ENTRIES = [
    {"name": "masked_lm", "max_length": 130},
    {"name": "span_corruption", "input_length": 130, "container": "tar"},
]


@pytest.mark.parametrize(("size", "width"), [(65_536, "uint16"), (65_537, "uint32")])
def test_every_id_survives_every_stage(tmp_path, size, width):
    write_token_set(tmp_path, [60_000, 90_000, 110_000], words=vocabulary(size))
    made = recipe(tmp_path, ENTRIES, heldout=0.0)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    for entry in ENTRIES:
        manifest = tmp_path / "corrupt" / str(entry["name"]) / "train" / "manifest.json"
        shards = open_shards(manifest)
        samples = tmp_path / "group" / shards.manifest.parents[0].name
        assert f"{len(shards):,} examples restored" in validate(manifest, samples)
        ids = [column for column in shards.columns if "ids" in column.name]
        assert {column.dtype for column in ids} == {width}
        blocks = [shards.read_block(block) for block in range(len(shards.index))]
        assert max(int(rows.columns[column.name].values.max()) for rows in blocks for column in ids) == size - 1


@pytest.mark.parametrize("size", [65_536, 65_537])
def test_an_id_too_large_is_refused_wherever_it_is(tmp_path, size):
    """The same files under a vocabulary that is one smaller: the largest id has no meaning any more."""
    write_token_set(tmp_path, [200_000], shards=1, words=vocabulary(size))
    folder = tmp_path / "encode"
    assert open_shards(folder).read_block(0).columns["token_ids"].values.max() == size - 1
    change_manifest(folder, lambda plain: plain["tokenizer"].update(vocab_size=size - 1))
    with pytest.raises(DamagedBlock, match=f"ids below the vocabulary's {size - 1} in t.*_ids, got {size - 1}"):
        open_shards(folder).read_block(0)


def test_plain_arrow_sees_the_wide_ids(tmp_path):
    rows = write_token_set(tmp_path, [200_000], shards=1, words=vocabulary(65_537))
    with pa.ipc.open_file(str(tmp_path / "encode/shard-00000-of-00001.arrow")) as reader:
        column = reader.read_all()["token_ids"]
    assert str(column.type) == "list<item: uint32 not null>"
    np.testing.assert_array_equal(column[0].values.to_numpy(), rows.columns["token_ids"][0])
    assert rows.columns["token_ids"][0].max() == 65_536
