from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.shards.arrow import ArrowContainer, message_start
from clozeline.pipeline.shards.file_sink import HashedFile
from tests.shard_sets import toy_set


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_bytes_of_an_arrow_shard(tmp_path: Path, codec: str) -> None:
    """Magic, schema, the blocks one after the other, the end mark, the footer: nothing else."""
    shards = toy_set(tmp_path, [10], codec=codec)
    raw = shards.shard_path(0).read_bytes()
    starts, lengths = (column.astype(int).tolist() for column in (shards.index.offset, shards.index.length))
    with pa.ipc.open_file(raw) as reader:
        assert starts[0] == 8 + reader.schema.serialize().size
    assert (raw[:8], raw[-6:]) == (b"ARROW1\0\0", b"ARROW1")
    assert all(start % 8 == 0 and raw[start : start + 4] == b"\xff" * 4 for start in starts)
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    assert ends[:-1] == starts[1:]
    assert raw[ends[-1] : ends[-1] + 8] == b"\xff\xff\xff\xff\0\0\0\0"
    footer = int.from_bytes(raw[-10:-6], "little")
    assert ends[-1] + 8 + footer + 10 == len(raw)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.booleans())
def test_each_block_is_where_it_was_said_to_be(sizes: list[int], compressed: bool) -> None:
    schema = pa.schema([pa.field("n", pa.uint32(), nullable=False)])
    codec = pa.Codec("zstd", compression_level=1) if compressed else None
    file = io.BytesIO()
    container = ArrowContainer(HashedFile(file), schema, pa.ipc.IpcWriteOptions(compression=codec, use_threads=False))
    batches = [pa.record_batch([pa.array(range(size), pa.uint32())], schema=schema) for size in sizes]
    places = [container.append(batch) for batch in batches]
    container.close()
    raw = file.getvalue()
    end = message_start(schema)
    for batch, (offset, stored) in zip(batches, places, strict=True):
        assert offset == end
        assert raw[offset : offset + len(stored)] == stored
        assert pa.ipc.read_record_batch(pa.ipc.read_message(stored), schema).equals(batch)
        end += len(stored)
    assert pa.ipc.open_file(raw).read_all().equals(pa.Table.from_batches(batches))
