"""Decode blocks: each is one record batch message of Arrow, whose claims are checked before memory is taken for them.

Compressed Arrow buffers state their decompressed size; 17 kB can claim 512 MiB. Arrow's reader of messages would
believe them, so the buffers are taken one by one, by the message's own table.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows, equal_offsets
from clozeline.pipeline.shards.columns import ColumnSpec
from clozeline.repair import repair_of

_HEADER: Final = 2  # field numbers of the flatbuffer tables Message and RecordBatch
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_PADDING: Final = 64
_ZSTD: Final = pa.Codec("zstd")


class DamagedBlock(IntegrityError):
    """The bytes of a block contradict its index entry or the manifest; `block` is its number in the file `shard`."""

    def __init__(self, shard: Path | str, block: int, expected: str, got: str) -> None:
        super().__init__(f"{shard}: block {block}: expected {expected}, got {got}; {repair_of(shard)}")
        self.shard = str(shard)
        self.block = block
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[str, int, str, str]]:
        return (DamagedBlock, (self.shard, self.block, self.expected, self.got))


class BlockError(Exception):
    """A block that must not be used; the reader adds the file and the index of the block."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


def decode(
    stored: bytes | memoryview,
    columns: Sequence[ColumnSpec],
    rows: int,
    max_bytes: int,
    only: Collection[str] | None = None,
) -> Rows:
    """Return the rows of one encapsulated record batch message, as views of `stored` where it is not compressed.

    Args:
        stored: metadata and body, exactly as in the file.
        columns: the columns of the set.
        rows: rows that the index promises.
        max_bytes: largest size after decompression, in bytes.
        only: names of the columns to decompress; the claims of the others are checked all the same. None: all.

    Raises:
        BlockError: the message does not hold what it should.
    """
    fixed: dict[str, NDArray[Any]] = {}
    lists: dict[str, Ragged] = {}
    try:
        message = pa.ipc.read_message(pa.py_buffer(stored))
        header = _read_header(message.metadata.to_pybytes())
        found = (len(header[1]), len(header[2]))
        needed = len(columns) + sum(spec.kind == "list" for spec in columns)
        if found != (needed, 2 * needed):  # a bitmap of nulls and one other buffer for columns and lists of values
            raise BlockError(f"the {len(columns)} columns of the manifest", f"{found[0]} nodes, {found[1]} buffers")
        batch = _Buffers(header, memoryview(message.body), max_bytes)
        for spec in columns:
            wanted = only is None or spec.name in only
            batch.next_array(spec.name, rows)
            if spec.kind == "fixed":
                data = batch.next_buffer(rows * spec.width, wanted)
                if wanted and spec.dtype == "binary16":
                    fixed[spec.name] = np.frombuffer(data, np.uint8, 16 * rows).reshape(-1, 16)
                elif wanted:
                    fixed[spec.name] = np.frombuffer(data, spec.dtype, rows)
                continue
            offsets = batch.next_buffer(4 * (rows + 1), wanted)
            count = batch.next_array(spec.name)
            data = batch.next_buffer(count * spec.width, wanted)
            if wanted:
                values = np.frombuffer(data, spec.dtype, count) if count else np.empty(0, spec.dtype)
                lists[spec.name] = _to_lists(spec.name, np.frombuffer(offsets, np.int32, rows + 1), values)
    except (pa.ArrowException, struct.error, IndexError, ValueError, EOFError, OSError) as error:
        raise BlockError("a record batch", f"unreadable bytes ({error})") from error
    return Rows(fixed, lists)


class _Buffers:
    """The arrays and buffers of a record batch in Arrow's order; what the message claims is checked first."""

    def __init__(self, header: _Header, body: memoryview, max_bytes: int) -> None:
        self._rows, nodes, buffers, self._compressed = header
        self._nodes, self._buffers = iter(nodes), iter(buffers)
        self._body, self._max_bytes, self._taken = body, max_bytes, 0

    def next_array(self, name: str, rows: int | None = None) -> int:
        """Return the length of the next array, which has no nulls: `rows` for a column."""
        length, nulls = next(self._nodes)
        if rows is not None and (self._rows, length, nulls) != (rows, rows, 0):
            raise BlockError(f"{rows} rows without nulls in {name}", f"{length} with {nulls} nulls")
        if length < 0 or nulls:
            raise BlockError(f"values without nulls in {name}", f"{length} with {nulls} nulls")
        self._take(next(self._buffers), 0)  # their bitmap
        return length

    def next_buffer(self, size: int, wanted: bool) -> Any:
        """Return the next buffer, of `size` bytes, decompressed; the stored bytes of one that is not wanted."""
        self._taken += size
        if self._taken > self._max_bytes:
            raise BlockError(f"at most {self._max_bytes} bytes after decompression", f"{self._taken} or more")
        return self._take(next(self._buffers), size, wanted)

    def _take(self, place: list[int], size: int, wanted: bool = True) -> object:
        offset, length = place
        if offset < 0 or length < 0 or offset + length > len(self._body):
            raise BlockError(f"buffers inside a body of {len(self._body)} bytes", f"one at {offset} of {length} bytes")
        stored, claimed = self._body[offset : offset + length], length
        if framed := self._compressed and length > 0:
            # an int64 before the frame says its size; -1: the bytes did not shrink and are stored as they are
            (claimed,), stored = struct.unpack_from("<q", stored), stored[8:]
            framed = claimed != -1
            claimed = claimed if framed else len(stored)
        if not size <= claimed <= size + _PADDING * (size > 0):
            raise BlockError(f"a buffer of {size} bytes", f"one that claims {claimed}")
        # memory of Arrow's pool, which keeps what is freed: fresh pages cost more than decompressing into them
        return memoryview(_ZSTD.decompress(stored, claimed)).toreadonly() if framed and wanted else stored


def _to_lists(name: str, offsets: NDArray[np.int32], values: NDArray[np.generic]) -> Ragged:
    """Return the lists of a column, whose offsets rise from 0 to the number of values."""
    bounds, rows = offsets.astype(np.int64), len(offsets) - 1
    equal = equal_offsets(rows, int(bounds[1])) if rows else bounds
    bounds = equal if np.array_equal(bounds, equal) else bounds  # readers know this array of equally long lists
    if bounds[0] != 0 or bounds[-1] != len(values) or (np.diff(bounds) < 0).any():
        raise BlockError(f"offsets of {name} that rise from 0 to {len(values)}", "others")
    return Ragged(values, bounds)


_Header = tuple[int, list[list[int]], list[list[int]], bool]
"""Rows, (length, nulls) of each array, (offset, length) of each buffer, and whether these are compressed."""


@lru_cache(maxsize=64)
def _read_header(raw: bytes) -> _Header:
    """Parse the header of a message, unverified; uncompressed blocks of equally long rows share it."""
    message = _fields(raw, struct.unpack_from("<I", raw, 0)[0])
    batch = _fields(raw, _pointer(raw, message[_HEADER]))
    (rows,) = struct.unpack_from("<q", raw, batch[_LENGTH])
    compressed = len(batch) > _COMPRESSION and batch[_COMPRESSION] > 0
    return rows, _pairs(raw, batch[_NODES]), _pairs(raw, batch[_BUFFERS]), compressed


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
