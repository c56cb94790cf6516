"""Sample the documents of a run for its report: lengths, duplicate clusters, kept and dropped texts.

Read from the stages' own files, a bounded number of them, so that a report costs the same for any corpus.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.ingest.documents.files import Rejection, read_batches, read_malformed, read_rejects
from clozeline.recorded_file import RecordedFile, find_file, find_files
from clozeline.repair import repair_of

# Files of a folder that are read.
_FILES: Final = 16
# Texts shown of what was kept, and for each reason.
_TEXTS: Final = 3
# Malformed records shown for each reason.
_RECORDS: Final = 20
# Characters shown of a text.
_CHARACTERS: Final = 400
_HOST: Final = r"^[a-zA-Z]+://([^/:?#]*).*$"
# Cluster sizes below this one have a bar each.
_SMALL: Final = 8


@dataclass(frozen=True)
class Parts:
    """Files of one folder, evenly sampled if there are many."""

    files: tuple[RecordedFile, ...]
    total: int

    @staticmethod
    def of(folder: Path) -> Parts:
        """Return the Arrow files of a folder, which is one of a stage's or below one."""
        paths = sorted(folder.glob("*.arrow"))
        count = min(len(paths), _FILES)
        chosen = [paths[number * len(paths) // count] for number in range(count)]
        stage = next((parent for parent in folder.parents if (parent / "records").is_dir()), folder)
        relatives = [path.relative_to(stage).as_posix() for path in chosen]
        return Parts(tuple(find_files(stage, relatives)), len(paths))

    @property
    def share(self) -> str:
        """Words for a title where not all files were read; else ""."""
        return f" ({len(self.files)} of {self.total:,} parts)" if len(self.files) < self.total else ""


Histogram: TypeAlias = tuple[list[int], list[int]]
"""Bounds of ranges, and counts of integers in them, one fewer."""


@dataclass(frozen=True)
class SampleText:
    """The beginning of a text, "" where none was kept, and where it came from."""

    text: str
    origin: str


def lengths(parts: Parts) -> Histogram:
    """Count documents by characters; each range is twice as wide as the one before."""
    batches = (batch for file in parts.files for batch in read_batches(file, ("n_chars",)))
    values = [np.empty(0, np.int64), *(batch.column("n_chars").to_numpy() for batch in batches)]
    return _count_values(np.concatenate(values), [0, *(1 << power for power in range(40))])


def tally_documents(parts: Parts, column: str) -> dict[str, tuple[int, int]]:
    """Return documents and characters by a column of the documents, `url` by its host; documents without one are ""."""
    counts: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for file in parts.files:
        for batch in read_batches(file, (column, "n_chars")):
            names = pc.fill_null(batch.column(column).cast(pa.utf8()), "")
            names = pc.replace_substring_regex(names, _HOST, r"\1") if column == "url" else names
            grouped = pa.table({"name": names, "n": batch.column("n_chars").cast(pa.int64())}).group_by("name")
            for row in grouped.aggregate([("n", "sum"), ("n", "count")]).to_pylist():
                counts[row["name"]] += row["n_count"]
                characters[row["name"]] += row["n_sum"]
    return {name: (count, characters[name]) for name, count in counts.items()}


def cluster_sizes(parts: Parts) -> Histogram:
    """Count clusters of duplicates by the number of their documents, 2 or more."""
    sizes: Counter[bytes] = Counter()
    for file in parts.files:
        try:
            with pa.ipc.open_file(file.buffer()) as reader:
                for number in range(reader.num_record_batches):
                    sizes.update(reader.get_batch(number).column("cluster").to_pylist())
        except (pa.ArrowException, KeyError) as error:
            raise IntegrityError(f"{file.path}: not a file of clusters ({error}); {repair_of(file.path)}") from error
    values = np.fromiter(sizes.values(), np.int64, len(sizes))
    return _count_values(values, [*range(2, _SMALL), *(_SMALL << power for power in range(40))])


def sample_kept_texts(parts: Parts) -> list[SampleText]:
    """Return the beginnings of the three documents with the smallest uids, which are as good as drawn by chance."""
    chosen = heapq.nsmallest(_TEXTS, ((uid, file.path) for file in parts.files for uid in _uids(file)))
    files = {file.path: file for file in parts.files}
    return [SampleText(_cut(text), origin) for uid, path in chosen for text, origin in [_document(files[path], uid)]]


def sample_rejects(parts: Parts, earlier: Path | None) -> dict[str, list[SampleText]]:
    """Return up to three rejected documents for each reason; those whose text is known come first.

    `earlier` is the folder of the documents that the stage read, which hold the texts that rejections leave out.
    """
    chosen: dict[str, list[tuple[bool, bytes, Path, Rejection]]] = {}
    for file in parts.files:
        for rejection in read_rejects(file):
            entries = chosen.setdefault(rejection.reason, [])
            entries.append((rejection.sample_text is None and earlier is None, rejection.uid, file.path, rejection))
            entries.sort(key=lambda entry: entry[:2])
            del entries[_TEXTS:]
    return {
        reason: [
            _to_sample_text(reject, None if earlier is None else earlier / path.name) for _, _, path, reject in entries
        ]
        for reason, entries in chosen.items()
    }


def sample_malformed(parts: Parts) -> dict[str, list[Rejection]]:
    """Return the first malformed records of each reason."""
    chosen: dict[str, list[Rejection]] = {}
    for record in (record for file in parts.files for record in read_malformed(file)):
        entries = chosen.setdefault(record.reason, [])
        if len(entries) < _RECORDS:
            entries.append(record)
    return chosen


def _to_sample_text(rejection: Rejection, earlier: Path | None) -> SampleText:
    text = rejection.sample_text
    if text is None and earlier is not None and earlier.exists():
        text, _ = _document(find_file(earlier.parents[1], earlier.stem, f"documents/{earlier.name}"), rejection.uid)
    parts = (f"{rejection.source} at {rejection.offset:,}", f"{rejection.n_chars:,} characters", rejection.detail)
    return SampleText(_cut(text or ""), " · ".join(part for part in parts if part))


def _document(file: RecordedFile, uid: bytes) -> tuple[str, str]:
    """Return text and origin of the document with this uid; "" where the file does not hold it."""
    for batch in read_batches(file, ("uid", "text", "url", "source", "offset")):
        uids = batch.column("uid")
        if (row := uids.index(pa.scalar(uid, uids.type)).as_py()) >= 0:
            text, url, source, offset = (
                batch.column(name)[row].as_py() for name in ("text", "url", "source", "offset")
            )
            return text, url or f"{source} at {offset:,}"
    return "", ""


def _uids(file: RecordedFile) -> Iterator[bytes]:
    for batch in read_batches(file, ("uid",)):
        yield from batch.column("uid").to_pylist()


def _count_values(values: NDArray[np.int64], bounds: Sequence[int]) -> Histogram:
    """Count values between the bounds, from the first range that holds one to the last."""
    if not len(values):
        return [0, 1], [0]
    first = int(np.searchsorted(bounds, values.min(), side="right")) - 1
    end = int(np.searchsorted(bounds, values.max(), side="right"))
    edges = list(bounds[first : end + 1])
    return edges, np.histogram(values, [*edges[:-1], edges[-1] - 0.5])[0].tolist()


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS].rstrip()} …"
