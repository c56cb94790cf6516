import tarfile
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import WEIGHT, Feature, Ragged, Rows
from clozeline.pipeline.shards import auto_block_rows, feature_columns, write_shard
from clozeline.pipeline.shards.columns import cut
from tests.shard_sets import COLUMNS, IDS, ids_of, rows, toy_set, write_set

FORMS = [(container, codec) for container in ("arrow", "tar") for codec in ("none", "zstd")]


def same(left, right):
    return all(np.array_equal(left.fixed[name], right.fixed[name]) for name in left.fixed) and all(
        np.array_equal(left.columns[name].lengths, right.columns[name].lengths)
        and np.array_equal(np.concatenate([*left.columns[name], []]), np.concatenate([*right.columns[name], []]))
        for name in left.columns
    )


@pytest.mark.parametrize(("container", "codec"), FORMS)
def test_rows_come_back(tmp_path, container, codec):
    content = rows(range(1, 24), [n % 5 for n in range(23)])
    shards = write_set(tmp_path, [content], container=container, codec=codec)
    assert shards.index.rows.tolist() == [4] * 5 + [3]
    found = Rows.concatenate([shards.read_block(block) for block in range(len(shards.index))])
    assert same(found, content)
    assert {name: column.dtype for name, column in found.fixed.items()} == {
        name: column.dtype for name, column in content.fixed.items()
    }
    assert found.columns["input_ids"].values.dtype == np.uint16


@pytest.mark.parametrize(("container", "codec"), FORMS)
def test_weights_come_back_to_the_last_bit(tmp_path, container, codec):
    weights = np.array([1 / 3, 65_000, 1, 7 / 6, 2**-20, 3, 1.25], np.float32)
    content = rows(range(1, 8))
    column = Ragged(weights, np.arange(8))
    weight = feature_columns([Feature("label_weight", "float32", WEIGHT, "weight")], 1000)
    shards = write_set(
        tmp_path, [Rows(content.fixed, {**content.columns, "label_weight": column})],
        columns=[IDS, *weight], container=container, codec=codec,
    )  # fmt: skip
    found = [shards.read_block(block).columns["label_weight"].values for block in range(2)]
    assert np.concatenate(found).tobytes() == weights.tobytes()
    assert {part.dtype for part in found} == {np.dtype(np.float32)}
    assert shards.columns[-1].arrow_type == "list<float32>"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=8), st.integers(1, 7), st.sampled_from(FORMS))
def test_portions_do_not_matter(tmp_path_factory, portions, block_rows, form):
    """Bytes depend on the rows, never on the portions they come in; and what is read is what was written."""
    folder = tmp_path_factory.mktemp("portions")
    lengths = [length for portion in portions for length in portion]
    count = len(lengths)
    content = rows(range(1, count + 1), lengths)
    ends = np.cumsum([0, *map(len, portions)]).tolist()
    parts = [cut(content, start, stop) for start, stop in pairwise(ends)]
    options = {"block_rows": block_rows, "container": form[0], "codec": form[1]}
    whole = write_shard(folder / "a", content, COLUMNS, **options)
    assert write_shard(folder / "b", iter(parts), COLUMNS, name="a", **options) == whole
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    assert [block.rows for block in whole.blocks] == [
        min(block_rows, count - start) for start in range(0, count, block_rows)
    ]
    shards = write_set(folder / "set", [content], block_rows=block_rows, container=form[0], codec=form[1])
    found = [shards.read_block(block) for block in range(len(shards.index))]
    assert same(Rows.concatenate(found) if found else rows([]), content)


@pytest.mark.parametrize(("container", "codec"), FORMS)
def test_a_byte_range_of_the_index_parses_alone(tmp_path, container, codec):
    """Neither footer nor archive is needed, and what is found is what a reader of the whole file gets."""
    shards = toy_set(tmp_path, [10, 0, 3], container=container, codec=codec)
    seen = 0
    for number in range(3):
        path = shards.shard_path(number)
        raw = path.read_bytes()
        for place, batch in enumerate(batches(path)):
            start, length = int(shards.index.offset[seen]), int(shards.index.length[seen])
            assert (int(shards.index.shard[seen]), int(shards.index.block[seen])) == (number, place)
            stored = raw[start : start + length]
            alone = pa.ipc.read_record_batch(pa.ipc.read_message(stored), batch.schema)
            alone.validate(full=True)
            assert alone.equals(batch)
            rows = shards.read_block(seen)
            assert batch.column("uid").to_pylist() == rows.fixed["uid"].tolist()
            assert batch.column("document_uid").to_pylist() == [uid.tobytes() for uid in rows.fixed["document_uid"]]
            assert batch.column("input_ids").to_pylist() == [ids.tolist() for ids in rows.columns["input_ids"]]
            assert xxhash.xxh3_128(stored).digest() == shards.index.xxh3[seen].tobytes()
            seen += 1
    assert seen == len(shards.index) == 4


def batches(path):
    """The blocks of a shard, through the container's own reader."""
    if path.suffix == ".arrow":
        with pa.ipc.open_file(str(path)) as reader:
            return [reader.get_batch(number) for number in range(reader.num_record_batches)]
    found = []
    with tarfile.open(path) as archive:
        for entry in archive:
            with pa.ipc.open_file(archive.extractfile(entry)) as reader:
                assert reader.num_record_batches == 1
                found.append(reader.get_batch(0))
    return found


@pytest.mark.parametrize(("container", "codec"), FORMS)
def test_rows_of_a_hundred_thousand_values(tmp_path, container, codec):
    content = rows(range(1, 6), [100_000, 0, 3, 65_537, 100_001])
    shards = write_set(tmp_path, [content], container=container, codec=codec, block_rows=2)
    assert shards.manifest.max_length == 100_001
    found = Rows.concatenate([shards.read_block(block) for block in range(3)])
    assert same(found, content)
    first = batches(shards.shard_path(0))[0]
    assert first.column("input_ids").to_pylist() == [ids_of(1, 100_000).tolist(), []]


def test_rows_of_a_block_follow_the_row_size():
    assert [auto_block_rows(size) for size in (1, 2184, 2185, 10_000, 10**6)] == [1920, 1920, 960, 240, 60]


def test_blocks_of_no_rows_are_refused(tmp_path):
    with pytest.raises(IntegrityError, match="block_rows"):
        write_shard(tmp_path / "x", rows([1], 1), COLUMNS, block_rows=0)
