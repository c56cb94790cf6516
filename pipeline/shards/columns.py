"""Columns of a shard set, and the conversion of rows to an Arrow record batch.

Fixed columns hold one number (or 16 bytes) per row. Other columns hold a list per row, also for scalars, of unsigned
integers, or of weights in float32 or float16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.columns import UNDO, Feature, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, Rows

Dtype: TypeAlias = Literal["uint8", "uint16", "uint32", "uint64", "float32", "float16", "binary16"]
Kind: TypeAlias = Literal["fixed", "list"]

_LIST_LIMIT: Final = 2**31 - 1  # Arrow counts the values of a list column in 32 bits


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column: `kind` "fixed" is one value per row, "list" a list per row; `dtype` is that of the values.

    A list has a role, which says what its values are for; a fixed column has none.
    """

    name: str
    dtype: Dtype
    kind: Kind
    description: str
    role: Role | None = None

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Dtype) or (self.kind == "list" and self.dtype == "binary16"):
            raise IntegrityError(f"column {self.name}: no shard column is a {self.kind} of {self.dtype}")
        if (self.role is None) == (self.kind == "list"):
            raise IntegrityError(f"column {self.name}: a list has a role, a fixed column has none, got {self.role}")

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return 16 if self.dtype == "binary16" else np.dtype(self.dtype).itemsize

    @property
    def arrow_type(self) -> str:
        """The Arrow type as manifests write it, such as `list<uint16>`."""
        value = "fixed_size_binary[16]" if self.dtype == "binary16" else self.dtype
        return f"list<{value}>" if self.kind == "list" else value

    def plain(self) -> dict[str, Any]:
        """Return the arguments of `parse`, as manifests hold them."""
        plain: dict[str, object] = {"name": self.name, "arrow_type": self.arrow_type, "description": self.description}
        if self.role is not None:
            plain["role"] = {key: value for key, value in asdict(self.role).items() if value}
        return plain

    @staticmethod
    def parse(name: str, arrow_type: str, description: str, role: Mapping[str, Any] | None = None) -> ColumnSpec:
        """Return the column with this `arrow_type` and role.

        Raises:
            IntegrityError: there is no such type, or a list has no role.
            TypeError: a value is no text.
            ValueError: there is no such use.
        """
        if not all(isinstance(value, str) for value in (name, arrow_type, description)):
            raise TypeError(f"column {name}: expected texts, got {arrow_type!r} and {description!r}")
        if (found := _TYPES.get(arrow_type)) is None:
            message = f"unknown type '{arrow_type}', known ones look like uint64 or list<uint16>"
            raise IntegrityError(f"column {name}: {message}")
        return ColumnSpec(name, *found, description, None if role is None else Role(**role))


_TYPES: Final[dict[str, tuple[Dtype, Kind]]] = {
    ColumnSpec("", dtype, kind, "", UNDO if kind == "list" else None).arrow_type: (dtype, kind)
    for dtype in get_args(Dtype)
    for kind in get_args(Kind)
    if (dtype, kind) != ("binary16", "list")
}


def base_columns() -> list[ColumnSpec]:
    """Return the fixed columns that every sample and example row has."""
    return [ColumnSpec(name, dtype, "fixed", _FIXED_TEXT[name]) for name, dtype in FIXED_COLUMNS.items()]  # type: ignore[arg-type]


_FIXED_TEXT: Final = {
    "uid": "hash of first document, copy, offset and grouping",
    "variant": "which corruption of the sample this is",
    "document_uid": "document of the row's first token",
    "document_offset": "index of the first token in that document",
    "copy": "which copy of the document",
    "part": "part of a mixture",
    "language": "code; names stand in the manifest",
}


def feature_columns(features: Iterable[Feature], vocab_size: int) -> list[ColumnSpec]:
    """List columns for declared features; `ids` becomes uint16 up to 65,536 entries, else uint32."""
    ids: Dtype = "uint16" if vocab_size <= 65536 else "uint32"
    typed = [(feature, ids if feature.dtype == "ids" else feature.dtype) for feature in features]
    return [ColumnSpec(each.name, dtype, "list", each.description, each.stored_role) for each, dtype in typed]


def holds_ids(spec: ColumnSpec) -> bool:
    """Return whether the column's values are token ids."""
    return spec.role is not None and spec.role.below == "vocabulary"


def block_bytes(columns: Sequence[ColumnSpec], rows: int, values: Sequence[int]) -> int:
    """Return the bytes of a block after decompression; `values` counts the values of each list column."""
    fixed = sum(rows * spec.width for spec in columns if spec.kind == "fixed")
    lists = [spec for spec in columns if spec.kind == "list"]
    return fixed + sum(4 * (rows + 1) + n * spec.width for spec, n in zip(lists, values, strict=True))


def arrow_schema(columns: Sequence[ColumnSpec], metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema, without nulls, dictionaries or extension types; a list's values are a field named `item`."""
    fields = []
    for spec in columns:
        value = pa.binary(16) if spec.dtype == "binary16" else getattr(pa, spec.dtype)()
        if spec.kind == "list":
            value = pa.list_(pa.field("item", value, nullable=False))
        fields.append(pa.field(spec.name, value, nullable=False))
    return pa.schema(fields, metadata=dict(metadata) if metadata else None)


def to_batch(rows: Rows, columns: Sequence[ColumnSpec], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as one record batch; IntegrityError where a column is missing or a value does not fit."""
    have, want = {*rows.fixed, *rows.columns}, {spec.name for spec in columns}
    if have != want:
        missing, extra = sorted(want - have) or "none", sorted(have - want) or "none"
        raise IntegrityError(f"rows do not match the declared columns: missing {missing}, not declared {extra}")
    arrays, count = [], len(rows)
    for spec, field in zip(columns, schema, strict=True):
        if spec.kind == "list":
            ragged = rows.columns[spec.name]
            if len(ragged) != count:
                raise IntegrityError(f"column {spec.name}: expected {count} lists, got {len(ragged)}")
            first, last = int(ragged.offsets[0]), int(ragged.offsets[-1])
            if last - first > _LIST_LIMIT:
                raise IntegrityError(f"column {spec.name}: {last - first} values in one block; use smaller blocks")
            values = pa.array(_fitting(ragged.values[first:last], spec.dtype, spec.name))
            offsets = pa.array((ragged.offsets - first).astype(np.int32))
            arrays.append(pa.ListArray.from_arrays(offsets, values, type=field.type))
            continue
        numbers, shape = rows.fixed[spec.name], (count, 16) if spec.dtype == "binary16" else (count,)
        if numbers.shape != shape:
            raise IntegrityError(f"column {spec.name}: expected shape {shape}, got {numbers.shape}")
        if spec.dtype == "binary16":
            raw = pa.py_buffer(np.ascontiguousarray(_fitting(numbers, "uint8", spec.name)))
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, raw]))
        else:
            arrays.append(pa.array(_fitting(numbers, spec.dtype, spec.name)))
    return pa.record_batch(arrays, schema=schema)


def _fitting(values: NDArray[np.generic], dtype: str, name: str) -> NDArray[np.generic]:
    """Convert values to `dtype`, or raise an IntegrityError if one is out of range."""
    if values.dtype == dtype:
        return values
    if dtype.startswith("float"):
        raise IntegrityError(f"column {name}: expected {dtype}, got {values.dtype}")
    if len(values):
        highest = int(np.iinfo(dtype).max)
        low, high = int(values.min()), int(values.max())
        if values.dtype.kind not in "iu" or low < 0 or high > highest:
            raise IntegrityError(f"column {name}: values must lie in 0..{highest}, got {low}..{high} ({values.dtype})")
    return values.astype(dtype)


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Return rows `start .. stop`, as views."""
    columns = {name: Ragged(column.values, column.offsets[start : stop + 1]) for name, column in rows.columns.items()}
    return Rows({name: column[start:stop] for name, column in rows.fixed.items()}, columns)
