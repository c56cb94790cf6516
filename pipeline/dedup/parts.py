"""Parts, rows and counts that the passes of `dedup` share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64
from clozeline.pipeline.execution.rewritten_documents import RewriteCounts
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.schema import row_schema
from clozeline.pipeline.text.normal_form import NormalForm

Schema: TypeAlias = Sequence[tuple[str, str]]
"""Names and numpy types of the fields of rows."""
Uids: TypeAlias = NDArray[np.bytes_]
"""Document uids, 16 bytes each."""


def uid_column(values: list[bytes]) -> Uids:
    """Return 16-byte uids as an array; numpy compares and sorts it as bytes."""
    return np.frombuffer(b"".join(values), dtype="S16")


def uid_bytes(column: Uids) -> list[bytes]:
    """Return the uids with all of their 16 bytes; numpy would strip trailing zero bytes."""
    raw = np.ascontiguousarray(column).tobytes()
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]


def pack_rows(schema: Schema, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns of equal length as packed rows, shape [n]."""
    rows = np.empty(len(columns[schema[0][0]]), np.dtype(list(schema)))
    for name, _ in schema:
        rows[name] = columns[name]
    return rows


def send_by_hash(
    output: Output, shuffle: Shuffle, source: str, rows: NDArray[Any], *keys: NDArray[Any]
) -> None:
    """Write the rows of a source, sorted by keys [n]; the first key is a hash in a range."""
    order = np.lexsort(keys[::-1])
    bounds = find_hash_bounds(keys[0][order], len(shuffle.destinations))
    _send(output, shuffle, source, rows[order], bounds)


def send_by_number(
    output: Output, shuffle: Shuffle, source: str, rows: NDArray[Any], *keys: NDArray[Any]
) -> None:
    """Write the rows of a source, sorted by keys [n]; the first key is the number of a unit."""
    order = np.lexsort(keys[::-1])
    bounds = np.searchsorted(keys[0][order], np.arange(len(shuffle.destinations) + 1)).tolist()
    _send(output, shuffle, source, rows[order], bounds)


def _send(
    output: Output, shuffle: Shuffle, source: str, rows: NDArray[Any], bounds: Sequence[int]
) -> None:
    with shuffle.write(output, source) as writer:
        for first, last in pairwise(bounds):
            writer.add([rows[first:last].tobytes()])


def read_rows(inputs: UnitInputs, pieces: Pieces, destination: str, schema: Schema) -> NDArray[Any]:
    """Return the rows of a destination, in the order of the sources."""
    return _join_rows(pieces.read(inputs, "dedup", destination), schema)[0]


def read_numbered_rows(
    inputs: UnitInputs, pieces: Pieces, destination: str, schema: Schema
) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Return the rows of a destination and the index of the source of each row, shape [n]."""
    return _join_rows(pieces.read(inputs, "dedup", destination, numbered=True), schema)


def _join_rows(
    pieces: Iterable[tuple[int, bytes]], schema: Schema
) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    dtype = np.dtype(list(schema))
    content = bytearray()  # to join pieces would hold all twice
    sources = list[int]()
    sizes = list[int]()
    for source, piece in pieces:
        content += piece
        sources.append(source)
        sizes.append(len(piece) // dtype.itemsize)
    return np.frombuffer(content, dtype), np.repeat(np.array(sources, np.uint32), sizes)


def find_hash_bounds(hashes: NDArray[Any], ranges: int) -> list[int]:
    """Return where each range starts in the sorted hashes, and the number of hashes.

    Hashes are uint64 or 16 bytes, big-endian. A hash belongs to floor(hash * ranges / 2**bits).
    """
    limits = [-(-(index << 8 * hashes.dtype.itemsize) // ranges) for index in range(ranges)]
    keys = limits if hashes.dtype == np.uint64 else [limit.to_bytes(16, "big") for limit in limits]
    return [*np.searchsorted(hashes, np.array(keys, hashes.dtype)).tolist(), len(hashes)]


def find_group_starts(ordered: NDArray[Any]) -> Bool:
    """Return which rows differ from the previous row, shape [n]; equal rows are neighbors."""
    starts = np.ones(len(ordered), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return starts


def choose_kept(groups: NDArray[Any], priority: Int64, uids: Uids) -> Int64:
    """Return for each row which row of its group is kept, shape [n].

    The kept row has the highest priority; among equal priorities, the smallest uid.

    groups ["x", "y", "x"], priority [4, 9, 7] -> [2, 1, 2]
    """
    order = np.lexsort((uids, -priority, groups))
    starts = find_group_starts(groups[order])
    kept = np.empty(len(order), dtype=np.int64)
    kept[order] = order[starts][np.cumsum(starts) - 1]
    return kept


def smallest_uids(groups: NDArray[Any], uids: Uids) -> Int64:
    """Return for each row the row with the smallest uid of its group; this uid names a cluster."""
    return choose_kept(groups, np.zeros(len(groups), dtype=np.int64), uids)


COMPARED_PRIORITY: Final = 1 << 62
"""Priority of a document that is only compared. Others have a lower one, the length of the text."""
_MOST_RANGES: Final = 256
DROP: Final = (("uid", "S16"), ("kept", "S16"))
"""Row of a dropped document: its uid, and the uid of the document kept instead."""
COPY: Final = (("uid", "S16"), ("part", "<u4"))
"""Row of a document that exact dedup keeps: its uid, and a part that holds a copy of it."""
CLUSTER: Final = (("cluster", "S16"), ("uid", "S16"), ("kept", "?"), ("similarity", "<f4"))
"""Row of a member of a cluster, see `CLUSTER_SCHEMA`."""
CLUSTER_SCHEMA: Final = row_schema(
    {"cluster": pa.binary(16), "uid": pa.binary(16), "kept": pa.bool_(), "similarity": pa.float32()}
)
"""Columns of `clusters/{exact,near}/<range:06d>.arrow`: `cluster` is the smallest uid of the
cluster, `similarity` the estimated Jaccard similarity to the kept document. Every cluster has two
or more members."""

_Side = Literal["parts", "ranges", "one"]
SHUFFLES: Final[dict[str, tuple[_Side, _Side, str]]] = {
    # rows of documents, to ranges of their hash
    "exact-hashes": ("parts", "ranges", "exact-hashes"),
    # exact copies, to their parts
    "exact-drops": ("ranges", "parts", "exact-survivors"),
    # kept by exact dedup, to ranges of their uid
    "exact-kept": ("ranges", "ranges", "exact-survivors"),
    # band keys, to ranges of the key
    "near-keys": ("parts", "ranges", "near-signatures"),
    # pairs of documents that share a key, to one unit
    "near-pairs": ("ranges", "one", "near-candidates"),
    # components of documents, to their parts
    "near-labels": ("one", "parts", "near-union"),
    # documents, to the range of their component
    "near-members": ("parts", "ranges", "near-members"),
    # members of clusters, to the range of the smallest uid of their cluster
    "near-clusters": ("ranges", "ranges", "near-resolve"),
    # near copies, to the range of their uid
    "near-dropped": ("ranges", "ranges", "near-resolve"),
    # near copies, to the parts that name them
    "near-drops": ("ranges", "parts", "near-clusters"),
}
"""Sources, destinations and writing pass of each shuffle of rows."""


class DuplicateCounts(TypedDict, total=False):
    """Counts of exact or near deduplication."""

    candidates: int  # band keys that two or more documents share, counted per document
    members: int  # documents that share a band key with another document
    clusters: int  # with a document that is dropped


class DedupCounts(RewriteCounts, total=False):
    """Counts of a unit of `dedup`."""

    without_key: int  # documents without a key for exact dedup, such as a URL
    exact: DuplicateCounts
    near: DuplicateCounts
    pieces: dict[str, dict[str, int]]  # counts of keys of extensions, by key
    edited: int  # documents from which such keys removed a part
    edits: dict[str, int]  # characters that they removed, by key


@dataclass(frozen=True)
class Parts:
    """The parts and hash ranges of dedup, and the shuffles between them."""

    names: tuple[str, ...]
    """names of the parts, in files and records"""
    ranges: int
    """number of hash ranges"""
    compared: frozenset[int] = frozenset()
    """numbers of the parts whose documents are compared by exact and near dedup, never written"""
    forms: Mapping[str, NormalForm] = field(default_factory=dict)
    """stored forms of texts by source group"""

    @cached_property
    def range_names(self) -> tuple[str, ...]:
        """Names of the hash ranges.

        Each holds their number: a range of another number holds other hashes, and sends other rows
        to other units, even if it holds none.
        """
        return tuple(f"{number:06d}-of-{self.ranges:06d}" for number in range(self.ranges))

    @property
    def compare(self) -> dict[str, bool]:
        """Whether the documents of each part are only compared."""
        return {part: number in self.compared for number, part in enumerate(self.names)}

    def shuffle(self, name: str) -> Shuffle:
        """Return a shuffle of rows between passes; `SHUFFLES` lists all of them."""
        if name not in self._shuffles:
            source, destination, writer = SHUFFLES[name]
            sides = {"parts": self.names, "ranges": self.range_names, "one": ("000000",)}
            self._shuffles[name] = Shuffle(name, sides[source], sides[destination], writer)
        return self._shuffles[name]

    def pieces(self, name: str) -> Pieces:
        """Return what a shuffle sends: nothing, if no pass so far writes it."""
        sent = self._shuffles.get(name)
        return Pieces(name, SHUFFLES[name][2]) if sent is None else sent.pieces

    @cached_property
    def _shuffles(self) -> dict[str, Shuffle]:
        return {}

    def passes(
        self, name: str, units: Mapping[str, Unit[DedupCounts]]
    ) -> Iterator[Pass[DedupCounts]]:
        """Yield a pass, then those that bundle the files of the shuffles that it writes."""
        yield Pass(name, units)
        for shuffle in list(self._shuffles.values()):
            if shuffle.writer == name:
                yield from shuffle.passes("dedup")


def count_ranges(shards: int) -> int:
    """Return the number of hash ranges: at most 256, but one per 4 shards in large plans.

    A range of 10 TB then holds 30 million band keys.
    """
    return min(shards, max(_MOST_RANGES, -(-shards // 4)))


def build_clusters(
    kept: Int64, uids: Uids, similarity: NDArray[np.float32], dropped: Int64, stays: Bool
) -> NDArray[Any]:
    """Return the members of the clusters of dropped rows, from the kept row of each row [n]."""
    members = np.flatnonzero(np.isin(kept, kept[dropped]))
    names = smallest_uids(kept[members], uids[members])
    columns: Mapping[str, NDArray[Any]] = {
        "cluster": uids[members][names],
        "uid": uids[members],
        "kept": stays[members],
        "similarity": similarity[members],
    }
    return pack_rows(CLUSTER, columns)


def clusters_name(kind: Literal["exact", "near"], name: str) -> str:
    """Return the name of the file with the clusters of a range."""
    return f"clusters/{kind}/{name.partition('-')[0]}.arrow"


def write_clusters(path: Path, rows: NDArray[Any]) -> None:
    """Write cluster members, sorted by (cluster, uid)."""
    rows = rows[np.lexsort((rows["uid"], rows["cluster"]))]
    columns = {name: rows[name] for name, _ in CLUSTER}
    columns["kept"] = np.packbits(rows["kept"], bitorder="little")
    # pyarrow would import pandas to convert numpy arrays
    arrays = [
        pa.Array.from_buffers(
            each.type, len(rows), [None, pa.py_buffer(np.ascontiguousarray(columns[each.name]))]
        )
        for each in CLUSTER_SCHEMA
    ]
    batch = pa.record_batch(arrays, schema=CLUSTER_SCHEMA)
    options = pa.ipc.IpcWriteOptions(
        compression=pa.Codec("zstd", compression_level=3), use_threads=False
    )
    with path.open("wb") as file, pa.ipc.new_file(file, CLUSTER_SCHEMA, options=options) as writer:
        writer.write_batch(batch)
