import pyarrow as pa
import pytest

from tests.shard_sets import toy_set


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_bytes_of_an_arrow_shard(tmp_path, codec):
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
