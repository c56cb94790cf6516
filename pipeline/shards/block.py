"""Decode blocks, and validate the stored bytes of a record batch before decompression.

Compressed Arrow buffers state their decompressed size; 17 kB can claim 512 MiB. So the buffer table of the message is
read first, compared with what the columns allow, and only then given to Arrow.
"""

import struct
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from clozeline.pipeline.rows import Ragged, Rows, equal_offsets
from clozeline.pipeline.shards.columns import ColumnSpec

_HEADER: Final = 2  # field numbers of the flatbuffer tables Message and RecordBatch
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_PADDING: Final = 64
_THREAD: Final = threading.local()
_ARROW_BUFFERS: Final = {"fixed": 2, "list": 4}  # a validity bitmap before offsets, and one before values


class BlockError(Exception):
    """A block that must not be used; the reader adds the file and the index of the block."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


@dataclass(frozen=True, slots=True)
class _Header:
    """Header of a record batch message, unverified: rows, (length, nulls) per node, (offset, length) per buffer."""

    rows: int
    nodes: list[list[int]]
    buffers: list[list[int]]
    compressed: bool


def raw_block_bytes(columns: Sequence[ColumnSpec], rows: int, values: Sequence[int]) -> int:
    """Return the bytes of a block after decompression; `values` counts the values of each list column."""
    fixed = sum(rows * spec.width for spec in columns if spec.kind == "fixed")
    lists = [spec for spec in columns if spec.kind == "list"]
    return fixed + sum(4 * (rows + 1) + n * spec.width for spec, n in zip(lists, values, strict=True))


def decode(
    stored: bytes | memoryview,
    columns: Sequence[ColumnSpec],
    rows: int,
    max_bytes: int,
    only: Collection[str] | None = None,
    scratch: memoryview | None = None,
) -> Rows:
    """Return the rows of one encapsulated record batch message, as views of `stored` where it is not compressed.

    The buffers are taken by the message's own table, because Arrow's reader of single messages would decompress on
    its global thread pool, and the stream's threads are parallel already.

    Args:
        stored: metadata and body, exactly as in the file.
        columns: the columns of the set.
        rows: rows that the index promises.
        max_bytes: largest size after decompression, in bytes.
        only: names of the columns to decompress; the claims of the others are checked all the same. None: all.
        scratch: memory of at least `max_bytes` to decompress into, which the rows may be views of; None: fresh memory.

    Raises:
        BlockError: the message does not hold what it should.
    """
    try:
        message = pa.ipc.read_message(pa.py_buffer(stored))
        header = _read_header(message.metadata.to_pybytes())
        sizes = _buffer_sizes(header, columns, rows)
        if sum(sizes) > max_bytes:
            raise BlockError(f"at most {max_bytes} bytes after decompression", f"{sum(sizes)}")
        taken = [only is None or spec.name in only for spec in columns]
        needed = [take for take, spec in zip(taken, columns, strict=True) for _ in range(_ARROW_BUFFERS[spec.kind])]
        buffers = _buffers(header, memoryview(message.body), sizes, needed, scratch)
    except (pa.ArrowException, struct.error, IndexError, ValueError, EOFError, OSError) as error:
        raise BlockError("a record batch", f"unreadable bytes ({error})") from error
    return _to_rows(buffers, columns, rows, taken)


@lru_cache(maxsize=64)
def _read_header(raw: bytes) -> _Header:
    """Parse the header of a message; uncompressed blocks of equally long rows share it."""
    message = _fields(raw, struct.unpack_from("<I", raw, 0)[0])
    batch = _fields(raw, _pointer(raw, message[_HEADER]))
    (rows,) = struct.unpack_from("<q", raw, batch[_LENGTH])
    compressed = len(batch) > _COMPRESSION and batch[_COMPRESSION] > 0
    return _Header(rows, _pairs(raw, batch[_NODES]), _pairs(raw, batch[_BUFFERS]), compressed)


def _fields(raw: bytes, table: int) -> list[int]:
    """Return the positions of a flatbuffer table's fields; -1 where a field is absent."""
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    if vtable < 0:
        raise ValueError("a table points outside the message")
    size = struct.unpack_from("<H", raw, vtable)[0]
    entries = struct.unpack_from(f"<{(size - 4) // 2}H", raw, vtable + 4)
    return [table + entry if entry else -1 for entry in entries]


def _pointer(raw: bytes, position: int) -> int:
    if position < 0:
        raise ValueError("a field of the message is absent")
    target: int = position + struct.unpack_from("<I", raw, position)[0]
    return target


def _pairs(raw: bytes, position: int) -> list[list[int]]:
    """Return the entries of a vector of structs of two int64."""
    vector = _pointer(raw, position)
    count = struct.unpack_from("<I", raw, vector)[0]
    pairs: list[list[int]] = np.frombuffer(raw, "<i8", 2 * count, vector + 4).reshape(-1, 2).tolist()
    return pairs


def _buffer_sizes(header: _Header, columns: Sequence[ColumnSpec], rows: int) -> list[int]:
    """Return the bytes that each buffer must have, in Arrow's order, from the counts of rows and values."""
    nodes = header.nodes
    lists = sum(spec.kind == "list" for spec in columns)
    counts = (len(nodes), len(header.buffers))
    if counts != (len(columns) + lists, 2 * (len(columns) + lists)):
        raise BlockError(f"the {len(columns)} columns of the manifest", f"{counts[0]} nodes, {counts[1]} buffers")
    sizes: list[int] = []
    take = iter(nodes)
    for spec in columns:
        length, nulls = next(take)
        if (header.rows, length, nulls) != (rows, rows, 0):
            raise BlockError(f"{rows} rows without nulls in {spec.name}", f"{length} with {nulls} nulls")
        sizes.append(0)
        if spec.kind == "list":
            sizes += [4 * (rows + 1), 0]
            length, nulls = next(take)
            if length < 0 or nulls:
                raise BlockError(f"values without nulls in {spec.name}", f"{length} with {nulls} nulls")
        sizes.append(length * spec.width)
    return sizes


def _buffers(
    header: _Header, body: memoryview, sizes: Sequence[int], needed: Sequence[bool], scratch: memoryview | None
) -> list[Any]:
    """Decompress the buffers, after checking the size that each states."""
    buffers: list[Any] = []
    used = 0
    for (offset, length), size, need in zip(header.buffers, sizes, needed, strict=True):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise BlockError(f"buffers inside a body of {len(body)} bytes", f"one at {offset} of {length} bytes")
        stored = body[offset : offset + length]
        if not header.compressed or length == 0:
            claimed, raw = length, True
        else:  # an int64 before the frame says its size; -1: the bytes did not shrink and are stored as they are
            claimed = struct.unpack_from("<q", stored)[0]
            raw, stored = claimed == -1, stored[8:]
            claimed = len(stored) if raw else claimed
        if not size <= claimed <= size + _PADDING * (size > 0):
            raise BlockError(f"a buffer of {size} bytes", f"one that claims {claimed}")
        if not raw and need:
            memory = memoryview(bytearray(claimed)) if scratch is None else scratch[used : used + claimed]
            stored = _decompress(stored, memory)
            used += claimed + -claimed % _PADDING
        buffers.append(stored)
    return buffers


def _decompress(frame: memoryview, target: memoryview) -> memoryview:
    """Decompress into `target`, whose memory is reused: allocating costs more than decompressing."""
    if not hasattr(_THREAD, "zstd"):
        _THREAD.zstd = zstandard.ZstdDecompressor()
    try:
        with _THREAD.zstd.stream_reader(frame) as reader:
            size = reader.readinto(target)
            more = reader.read(1)
    except zstandard.ZstdError as error:
        raise BlockError("a zstd frame", f"unreadable bytes ({error})") from error
    if size != len(target) or more:
        raise BlockError(f"a frame of {len(target)} bytes", f"one of {'more' if more else size}")
    return target


def _to_rows(buffers: Sequence[Any], columns: Sequence[ColumnSpec], rows: int, taken: Sequence[bool]) -> Rows:
    fixed: dict[str, NDArray[Any]] = {}
    lists: dict[str, Ragged] = {}
    take = iter(buffers)
    for spec, needed in zip(columns, taken, strict=True):
        _, first = next(take), next(take)
        data: Any = (next(take), next(take))[1] if spec.kind == "list" else None
        if not needed:
            continue
        if spec.dtype == "binary16":
            fixed[spec.name] = np.frombuffer(first, np.uint8, 16 * rows).reshape(-1, 16)
        elif spec.kind == "fixed":
            fixed[spec.name] = np.frombuffer(first, spec.dtype, rows)
        else:
            offsets, count = np.frombuffer(first, np.int32, rows + 1), len(data) // spec.width
            values = np.frombuffer(data, spec.dtype, count) if len(data) else np.empty(0, spec.dtype)
            equal = equal_offsets(rows, int(offsets[1])) if rows else offsets.astype(np.int64)
            bounds = equal if np.array_equal(offsets, equal) else offsets.astype(np.int64)
            end = int(offsets[-1])
            rises = end >= 0 if bounds is equal else bool((np.diff(bounds) >= 0).all())
            if bounds[0] != 0 or not rises or not 0 <= len(values) - end <= _PADDING:
                raise BlockError(f"offsets of {spec.name} that rise from 0 to {len(values)}", "others")
            lists[spec.name] = Ragged(values[:end], bounds)
    return Rows(fixed, lists)
