import random
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards.block import BlockError, decode
from clozeline.pipeline.shards.columns import arrow_schema, block_bytes, to_batch
from tests.shard_sets import COLUMNS, fixed, rows

SCHEMA = arrow_schema(COLUMNS)


def message(content, codec=None):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_batch(to_batch(content, COLUMNS, SCHEMA))
        end = sink.tell()
    return bytes(sink.getvalue().to_pybytes()[8 + SCHEMA.serialize().size : end])


def test_a_bomb_is_refused_before_memory_is_taken():
    """A few kilobytes that would become 64 MiB."""
    content = Rows(fixed(np.arange(1)), {"input_ids": Ragged(np.zeros(1 << 25, np.uint16), np.array([0, 1 << 25]))})
    stored = message(content, "zstd")
    assert len(stored) < 20_000
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    with pytest.raises(BlockError, match="at most 4096 bytes after decompression"):
        decode(stored, COLUMNS, 1, 4096)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    assert pa.total_allocated_bytes() - arrow < 1 << 20
    tracemalloc.stop()


def test_a_lying_length_is_refused_before_memory_is_taken():
    """The prefix of a compressed buffer claims another size than the columns give it."""
    content = rows(range(64), [64] * 64)
    stored = message(content, "zstd")
    assert len(decode(stored, COLUMNS, 64, 1 << 20)) == 64
    at = stored.rindex(struct.pack("<q", 64 * 64 * 2))
    for claim in (1 << 40, 1, -1, -2, 64 * 64 * 2 + 65):
        lie = stored[:at] + struct.pack("<q", claim) + stored[at + 8 :]
        with pytest.raises(BlockError, match="a buffer of 8192 bytes"):
            decode(lie, COLUMNS, 64, 1 << 20)


@pytest.mark.parametrize("values", [0, 64 * 64 - 1, 64 * 64, 64 * 64 + 1])
def test_a_frame_of_another_size_than_its_claim_is_refused(values):
    """What is missing would be memory of others; what is too much must not be written behind the end."""
    content = rows(range(64), [64] * 64)
    stored = message(content, "zstd")
    at = stored.rindex(struct.pack("<q", 64 * 64 * 2)) + 8
    frame = pa.Codec("zstd").compress(content.columns["input_ids"].values, asbytes=True)
    assert stored[at : at + len(frame)] == frame
    other = zstandard.compress(np.zeros(values, np.uint16).tobytes())
    rest = len(frame) - len(other) - 8  # a frame that is skipped fills the buffer
    other += struct.pack("<II", 0x184D2A50, rest) + bytes(rest)
    changed = stored[:at] + other + stored[at + len(frame) :]
    if values == 64 * 64:
        assert not decode(changed, COLUMNS, 64, 1 << 20).columns["input_ids"].values.any()
    else:
        with pytest.raises(BlockError, match="a record batch"):
            decode(changed, COLUMNS, 64, 1 << 20)


def test_rows_and_columns_must_be_those_of_the_set():
    stored = message(rows(range(5), 3))
    with pytest.raises(BlockError, match="6 rows without nulls"):
        decode(stored, COLUMNS, 6, 1 << 20)
    with pytest.raises(BlockError, match="7 columns of the manifest"):
        decode(stored, COLUMNS[:-1], 5, 1 << 20)


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_arbitrary_damage_is_an_exception_never_a_crash(codec):
    """Without the hash, whatever the bytes: rows within bounds, or `BlockError`."""
    stored = message(rows(range(16), [n % 5 for n in range(16)]), codec)
    draw = random.Random(3)
    for _ in range(3000):
        broken = bytearray(stored)
        for _ in range(draw.choice((1, 2, 8))):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            found = decode(bytes(broken[: draw.choice((len(broken), draw.randrange(len(broken))))]), COLUMNS, 16, 4096)
        except BlockError:
            continue
        offsets = found.columns["input_ids"].offsets
        assert len(found) == 16
        assert (np.diff(offsets) >= 0).all()
        assert offsets[-1] == len(found.columns["input_ids"].values)


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_only_wanted_columns_are_taken(codec):
    content = rows(range(40), [n % 7 for n in range(40)])
    stored = message(content, codec)
    lists = int(content.columns["input_ids"].lengths.sum())
    size = block_bytes(COLUMNS, 40, [lists])
    assert size == sum(array.nbytes for array in content.fixed.values()) + 4 * 41 + 2 * lists
    found = decode(stored, COLUMNS, 40, size, {"uid", "input_ids"})
    assert (set(found.fixed), set(found.columns)) == ({"uid"}, {"input_ids"})
    assert found.fixed["uid"].tolist() == list(range(40))
    assert found.columns["input_ids"].values.tolist() == content.columns["input_ids"].values.tolist()
    inside = np.shares_memory(found.fixed["uid"], np.frombuffer(stored, np.uint8))
    assert inside == (codec is None), "what is not compressed is a view of the stored bytes"
    with pytest.raises(BlockError, match=f"at most {size - 1} bytes"):
        decode(stored, COLUMNS, 40, size - 1, {"uid"})
