"""Rows between the passes of `dedup`, packed numpy records sorted by a hash, and what the passes compute on them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.unit_record import Output, require_equal

Schema: TypeAlias = Sequence[tuple[str, str]]
"""Names and numpy types of the fields of rows."""
Uids: TypeAlias = NDArray[np.bytes_]
"""Document uids, 16 bytes each."""


def uid_column(values: list[bytes]) -> Uids:
    """Return 16-byte uids as an array; numpy compares and sorts it as bytes."""
    return np.frombuffer(b"".join(values), dtype="S16")


def uid_bytes(column: Uids) -> list[bytes]:
    """Return the uids as full 16 bytes each; numpy itself would strip trailing zero bytes."""
    raw = np.ascontiguousarray(column).tobytes()
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]


def pack_rows(schema: Schema, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns of equal length as packed rows, shape [n]."""
    rows = np.empty(len(columns[schema[0][0]]), np.dtype(list(schema)))
    for name, _ in schema:
        rows[name] = columns[name]
    return rows


def write_rows(output: Output, shuffle: Shuffle, source: int, rows: NDArray[Any], bounds: Sequence[int]) -> None:
    """Write the sorted rows of a source; destination k gets rows[bounds[k]:bounds[k + 1]]."""
    require_equal(f"dedup: {shuffle.file(source)}", "rows", len(rows), "rows with a destination", bounds[-1])
    with shuffle.write(output, source) as writer:
        for first, last in pairwise(bounds):
            writer.add([rows[first:last].tobytes()])


def read_rows(folder: Path, shuffle: Shuffle, destination: int, schema: Schema) -> NDArray[Any]:
    """Return the rows of a destination, in the order of the sources."""
    return np.frombuffer(b"".join(shuffle.read(folder, destination)), np.dtype(list(schema)))


def hash_bounds(hashes: NDArray[Any], ranges: int) -> list[int]:
    """Return where each range starts in the sorted hashes (uint64 or 16 bytes, big-endian), and the end.

    A hash belongs to the range floor(hash * ranges / 2**bits).
    """
    limits = [-(-(index << 8 * hashes.dtype.itemsize) // ranges) for index in range(ranges)]
    keys = limits if hashes.dtype == np.uint64 else [limit.to_bytes(16, "big") for limit in limits]
    return [*np.searchsorted(hashes, np.array(keys, hashes.dtype)).tolist(), len(hashes)]


def number_bounds(numbers: NDArray[Any], count: int) -> list[int]:
    """Return where each of the numbers 0 .. count - 1 starts in the sorted numbers, and the end."""
    bounds: list[int] = np.searchsorted(numbers, np.arange(count + 1)).tolist()
    return bounds


def run_starts(ordered: NDArray[Any]) -> Bool:
    """Return which rows of an array in which equal rows are neighbors, shape [n], differ from the previous row."""
    starts = np.ones(len(ordered), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return starts


def locate_keys(keys: NDArray[Any], queries: NDArray[Any]) -> tuple[Int64, Bool]:
    """Return an index into the sorted `keys` for each query, and whether the key there equals the query."""
    if not len(keys):
        return np.zeros(len(queries), dtype=np.int64), np.zeros(len(queries), dtype=bool)
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return index, keys[index] == queries


def choose_kept(groups: NDArray[Any], merit: Int64, uids: Uids) -> Int64:
    """Return for each row the row of its group that is kept, shape [n]: highest merit, then smallest uid.

    groups ["x", "y", "x"], merit [4, 9, 7] -> [2, 1, 2]
    """
    order = np.lexsort((uids, -merit, groups))
    starts = run_starts(groups[order])
    kept = np.empty(len(order), dtype=np.int64)
    kept[order] = order[starts][np.cumsum(starts) - 1]
    return kept


def smallest_uids(groups: NDArray[Any], uids: Uids) -> Int64:
    """Return for each row the row with the smallest uid of its group, which names a cluster."""
    return choose_kept(groups, np.zeros(len(groups), dtype=np.int64), uids)
