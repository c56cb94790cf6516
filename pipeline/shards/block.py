"""Encode and decode blocks, each of which is one Arrow record batch message.

What a message claims is checked before memory is allocated. Compressed Arrow buffers state their
decompressed size: 17 kB can claim 512 MiB. Arrow's own reader would trust that, so the buffers are
read one by one, from the table in the message.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from clozeline.columns import UNDO, Feature, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, RowBatch, equal_offsets
from clozeline.repair import rebuild_hint

Dtype: TypeAlias = Literal["uint8", "uint16", "uint32", "uint64", "float32", "float16", "binary16"]
Kind: TypeAlias = Literal["fixed", "list"]

_LIST_LIMIT: Final = 2**31 - 1  # Arrow counts the values of a list column in 32 bits


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column of a shard; `dtype` is the type of its values.

    `kind` is "fixed" (one value per row) or "list" (a list per row). A list has a role, which says
    what its values are for; a fixed column has none.
    """

    name: str
    dtype: Dtype
    kind: Kind
    description: str
    role: Role | None = None

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Dtype) or (self.kind == "list" and self.dtype == "binary16"):
            raise IntegrityError(
                f"column {self.name}: a shard cannot hold a {self.kind} of {self.dtype}"
            )
        if (self.role is None) == (self.kind == "list"):
            raise IntegrityError(
                f"column {self.name}: a list needs a role, a fixed column has none, got {self.role}"
            )
        if (
            self.role is not None
            and (self.role.use in ("ids", "position", "start") or self.role.below)
            and self.dtype.startswith("float")
        ):
            raise IntegrityError(
                f"column {self.name}: {self.role} are whole numbers, got {self.dtype}"
            )

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return 16 if self.dtype == "binary16" else np.dtype(self.dtype).itemsize

    @property
    def arrow_type(self) -> str:
        """Arrow type as manifests write it, such as `list<uint16>`."""
        value = "fixed_size_binary[16]" if self.dtype == "binary16" else self.dtype
        return f"list<{value}>" if self.kind == "list" else value

    def as_dict(self) -> dict[str, Any]:
        """Return the arguments of `parse`, as manifests store them."""
        entry: dict[str, object] = {
            "name": self.name,
            "arrow_type": self.arrow_type,
            "description": self.description,
        }
        if self.role is not None:
            entry["role"] = {key: value for key, value in asdict(self.role).items() if value}
        return entry

    @staticmethod
    def parse(
        name: str, arrow_type: str, description: str, role: Mapping[str, Any] | None = None
    ) -> ColumnSpec:
        """Return the column with this `arrow_type` and role.

        Raises:
            IntegrityError: there is no such type, or a list has no role.
            TypeError: a value is not a string.
            ValueError: the role has an unknown use.
        """
        if not all(isinstance(value, str) for value in (name, arrow_type, description)):
            raise TypeError(
                f"column {name}: expected strings, got {arrow_type!r} and {description!r}"
            )
        if (known := _TYPES_BY_ARROW_NAME.get(arrow_type)) is None:
            message = f"unknown type '{arrow_type}', known ones look like uint64 or list<uint16>"
            raise IntegrityError(f"column {name}: {message}")
        return ColumnSpec(name, *known, description, None if role is None else Role(**role))

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON Schema of the arguments of `parse`."""
        text = {"type": "string"}
        role = TypeAdapter(Role).json_schema() | {"additionalProperties": False}
        keys: dict[str, Any] = {"name": text, "description": text}

        def of_kind(kind: Kind, **more: Any) -> dict[str, Any]:
            types = [name for name, known in _TYPES_BY_ARROW_NAME.items() if known[1] == kind]
            properties = {**keys, "arrow_type": {"enum": types}, **more}
            return {
                "type": "object",
                "properties": properties,
                "required": [*properties],
                "additionalProperties": False,
            }

        return {"anyOf": [of_kind("fixed"), of_kind("list", role=role)]}


_TYPES_BY_ARROW_NAME: Final[dict[str, tuple[Dtype, Kind]]] = {
    ColumnSpec("", dtype, kind, "", UNDO if kind == "list" else None).arrow_type: (dtype, kind)
    for dtype in get_args(Dtype)
    for kind in get_args(Kind)
    if (dtype, kind) != ("binary16", "list")
}


def base_columns() -> list[ColumnSpec]:
    """Return the fixed columns of every sample or example row."""
    return [
        ColumnSpec(name, dtype, "fixed", _FIXED_DESCRIPTIONS[name])  # type: ignore[arg-type]
        for name, dtype in FIXED_COLUMNS.items()
    ]


_FIXED_DESCRIPTIONS: Final = {
    "uid": "hash of first document, copy, offset and grouping",
    "variant": "which corruption of the sample this is",
    "document_uid": "document of the row's first token",
    "document_offset": "index of the first token in that document",
    "copy": "which copy of the document",
    "part": "part of a mixture",
    "language": "code; names stand in the manifest",
}


def feature_columns(features: Iterable[Feature], vocab_size: int) -> list[ColumnSpec]:
    """Return the list columns of features.

    `ids` becomes uint16 up to 65,536 entries, else uint32.
    """
    ids: Dtype = "uint16" if vocab_size <= 65536 else "uint32"
    typed = [(feature, ids if feature.dtype == "ids" else feature.dtype) for feature in features]
    return [
        ColumnSpec(each.name, dtype, "list", each.description, each.stored_role)
        for each, dtype in typed
    ]


def holds_ids(spec: ColumnSpec) -> bool:
    """Return whether the column's values are token ids."""
    return spec.role is not None and spec.role.below == "vocabulary"


def block_bytes(columns: Sequence[ColumnSpec], rows: int, values: Sequence[int]) -> int:
    """Return the decompressed bytes of a block.

    `values` has the number of values per list column.
    """
    fixed = sum(rows * spec.width for spec in columns if spec.kind == "fixed")
    lists = [spec for spec in columns if spec.kind == "list"]
    return fixed + sum(
        4 * (rows + 1) + n * spec.width for spec, n in zip(lists, values, strict=True)
    )


def arrow_schema(
    columns: Sequence[ColumnSpec], metadata: Mapping[str, str] | None = None
) -> pa.Schema:
    """Return the Arrow schema, without nulls, dictionaries or extension types."""
    fields = []
    for spec in columns:
        value = pa.binary(16) if spec.dtype == "binary16" else getattr(pa, spec.dtype)()
        if spec.kind == "list":
            value = pa.list_(pa.field("item", value, nullable=False))
        fields.append(pa.field(spec.name, value, nullable=False))
    return pa.schema(fields, metadata=dict(metadata) if metadata else None)


def to_batch(rows: RowBatch, columns: Sequence[ColumnSpec], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as one record batch.

    Raises:
        IntegrityError: a column is missing, or a value does not fit its type.
    """
    have = {*rows.fixed, *rows.columns}
    want = {spec.name for spec in columns}
    if have != want:
        missing = sorted(want - have) or "none"
        extra = sorted(have - want) or "none"
        raise IntegrityError(
            f"rows do not match the declared columns: missing {missing}, undeclared {extra}"
        )

    arrays = []
    count = len(rows)

    for spec, field in zip(columns, schema, strict=True):
        if spec.kind == "list":
            ragged = rows.columns[spec.name]
            if len(ragged) != count:
                raise IntegrityError(
                    f"column {spec.name}: expected {count} lists, got {len(ragged)}"
                )

            first = int(ragged.offsets[0])
            last = int(ragged.offsets[-1])
            if last - first > _LIST_LIMIT:
                raise IntegrityError(
                    f"column {spec.name}: {last - first} values in one block; use smaller blocks"
                )

            numbers = _convert_values(ragged.values[first:last], spec.dtype, spec.name)
            if spec.role is not None:
                spec.role.refuse_ignored(spec.name, numbers)
            values = pa.array(numbers)
            offsets = pa.array((ragged.offsets - first).astype(np.int32))
            arrays.append(pa.ListArray.from_arrays(offsets, values, type=field.type))
            continue

        numbers = rows.fixed[spec.name]
        shape = (count, 16) if spec.dtype == "binary16" else (count,)
        if numbers.shape != shape:
            raise IntegrityError(f"column {spec.name}: expected shape {shape}, got {numbers.shape}")
        if spec.dtype == "binary16":
            raw = pa.py_buffer(np.ascontiguousarray(_convert_values(numbers, "uint8", spec.name)))
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, raw]))
        else:
            arrays.append(pa.array(_convert_values(numbers, spec.dtype, spec.name)))

    return pa.record_batch(arrays, schema=schema)


def _convert_values(values: NDArray[np.generic], dtype: str, name: str) -> NDArray[np.generic]:
    """Convert values to `dtype`; raise IntegrityError if one is out of range."""
    if values.dtype == dtype:
        return values
    if dtype.startswith("float"):
        raise IntegrityError(f"column {name}: expected {dtype}, got {values.dtype}")
    if len(values):
        highest = int(np.iinfo(dtype).max)
        low = int(values.min())
        high = int(values.max())
        if values.dtype.kind not in "iu" or low < 0 or high > highest:
            raise IntegrityError(
                f"column {name}: values must lie in 0..{highest}, got {low}..{high} "
                f"({values.dtype})"
            )

    return values.astype(dtype)


_HEADER: Final = 2  # numbers of fields in the flatbuffer tables Message and RecordBatch
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_MOST_PADDING_BYTES: Final = 64
_CODECS: Final = (pa.Codec("lz4"), pa.Codec("zstd"))  # in the order of Arrow's numbers


class DamagedBlock(IntegrityError):
    """The bytes of a block contradict its index entry or the manifest.

    `block` is its index in the file `shard`.
    """

    def __init__(self, shard: Path | str, block: int, expected: str, got: str) -> None:
        super().__init__(
            f"{shard}: block {block}: expected {expected}, got {got}; {rebuild_hint(shard)}"
        )
        self.shard = str(shard)
        self.block = block
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[str, int, str, str]]:
        return (DamagedBlock, (self.shard, self.block, self.expected, self.got))


class BlockError(Exception):
    """A block that must not be used. The reader adds its file and index to the message."""

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
) -> RowBatch:
    """Decode one encapsulated record batch message; uncompressed arrays are views of `stored`.

    Args:
        stored: metadata and body, exactly as in the file.
        columns: the columns of the set.
        rows: number of rows according to the index.
        max_bytes: most bytes after decompression.
        only: names of the columns to decompress, None for all. The claims of the others are checked
            too.

    Raises:
        BlockError: the message is damaged, or contradicts the index or the manifest.
    """
    fixed: dict[str, NDArray[Any]] = {}
    lists: dict[str, Ragged] = {}

    try:
        message = pa.ipc.read_message(pa.py_buffer(stored))
        header = _read_header(message.metadata.to_pybytes())
        nodes = len(header[1])
        buffers = len(header[2])
        # each array has a bitmap of nulls and one other buffer; a list has two arrays
        needed = len(columns) + sum(spec.kind == "list" for spec in columns)
        if (nodes, buffers) != (needed, 2 * needed):
            raise BlockError(
                f"the {len(columns)} columns of the manifest", f"{nodes} nodes, {buffers} buffers"
            )

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
                values = (
                    np.frombuffer(data, spec.dtype, count) if count else np.empty(0, spec.dtype)
                )
                lists[spec.name] = _to_lists(
                    spec.name, np.frombuffer(offsets, np.int32, rows + 1), values
                )
    except (pa.ArrowException, struct.error, IndexError, ValueError, EOFError, OSError) as error:
        raise BlockError("a record batch", f"unreadable bytes ({error})") from error

    return RowBatch(fixed, lists)


class _Buffers:
    """Arrays and buffers of a record batch in Arrow's order; claims are checked before reading."""

    def __init__(self, header: _Header, body: memoryview, max_bytes: int) -> None:
        self._rows, nodes, buffers, self._codec = header
        self._nodes = iter(nodes)
        self._buffers = iter(buffers)
        self._body = body
        self._max_bytes = max_bytes
        self._taken = 0

    def next_array(self, name: str, rows: int | None = None) -> int:
        """Return the length of the next array, which must have no nulls.

        `rows` is the expected length, if the array is a column.
        """
        length, nulls = next(self._nodes)
        if rows is not None and (self._rows, length, nulls) != (rows, rows, 0):
            raise BlockError(f"{rows} rows without nulls in {name}", f"{length} with {nulls} nulls")
        if length < 0 or nulls:
            raise BlockError(f"values without nulls in {name}", f"{length} with {nulls} nulls")
        self._take(next(self._buffers), 0)  # the bitmap of nulls
        return length

    def next_buffer(self, size: int, wanted: bool) -> Any:
        """Return the next buffer of `size` bytes, decompressed if `wanted`."""
        self._taken += size
        if self._taken > self._max_bytes:
            raise BlockError(
                f"at most {self._max_bytes} bytes after decompression", f"{self._taken} or more"
            )
        return self._take(next(self._buffers), size, wanted)

    def _take(self, byte_range: list[int], size: int, wanted: bool = True) -> object:
        offset, length = byte_range

        if offset < 0 or length < 0 or offset + length > len(self._body):
            raise BlockError(
                f"buffers inside a body of {len(self._body)} bytes",
                f"one at {offset} of {length} bytes",
            )

        stored = self._body[offset : offset + length]
        claimed = length

        if framed := length > 0 and self._codec is not None:
            # an int64 before the frame holds its size; -1: the bytes did not shrink and are stored
            # uncompressed
            (claimed,), stored = struct.unpack_from("<q", stored), stored[8:]
            framed = claimed != -1
            claimed = claimed if framed else len(stored)

        if not size <= claimed <= size + _MOST_PADDING_BYTES * (size > 0):
            raise BlockError(f"a buffer of {size} bytes", f"one that claims {claimed}")
        # memory comes from Arrow's pool, which reuses freed pages: fresh ones cost more than the
        # decompression
        return (
            memoryview(self._codec.decompress(stored, claimed)).toreadonly()
            if framed and wanted and self._codec is not None
            else stored
        )


def _to_lists(name: str, offsets: NDArray[np.int32], values: NDArray[np.generic]) -> Ragged:
    """Return the lists of a column; offsets must rise from 0 to the number of values."""
    bounds = offsets.astype(np.int64)
    rows = len(offsets) - 1
    # lists of equal length share one cached array of offsets
    equal = equal_offsets(rows, int(bounds[1])) if rows else bounds
    if np.array_equal(bounds, equal):
        bounds = equal
    if bounds[0] != 0 or bounds[-1] != len(values) or (np.diff(bounds) < 0).any():
        raise BlockError(f"offsets of {name} that rise from 0 to {len(values)}", "others")
    return Ragged(values, bounds)


_Header = tuple[int, list[list[int]], list[list[int]], pa.Codec | None]
"""Rows, (length, nulls) of each array, (offset, length) of each buffer, and their codec; None:
buffers are not compressed."""


@lru_cache(maxsize=64)
def _read_header(raw: bytes) -> _Header:
    """Parse the header of a message, without checks; cached, since equal blocks share it."""
    message = _fields(raw, struct.unpack_from("<I", raw, 0)[0])
    batch = _fields(raw, _pointer(raw, message[_HEADER]))
    (rows,) = struct.unpack_from("<q", raw, batch[_LENGTH])
    codec = None
    if len(batch) > _COMPRESSION and batch[_COMPRESSION] > 0:
        # the number of the codec is the first field; a flatbuffer omits a 0
        fields = _fields(raw, _pointer(raw, batch[_COMPRESSION]))
        codec = _CODECS[raw[fields[0]] if fields and fields[0] > 0 else 0]
    return rows, _pairs(raw, batch[_NODES]), _pairs(raw, batch[_BUFFERS]), codec


def _fields(raw: bytes, table: int) -> list[int]:
    """Return the offsets of a flatbuffer table's fields; -1 if a field is absent."""
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
    """Return the entries of a vector of structs with two int64 each."""
    vector = _pointer(raw, position)
    count = struct.unpack_from("<I", raw, vector)[0]
    pairs: list[list[int]] = (
        np.frombuffer(raw, "<i8", 2 * count, vector + 4).reshape(-1, 2).tolist()
    )
    return pairs
