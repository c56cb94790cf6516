"""Draw sample documents for the report of a run, from at most 16 files of a folder."""

import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_batches,
    read_rejects,
)
from clozeline.recorded_file import RecordedFile, find_file

_MOST_FILES: Final = 16
_MOST_TEXTS: Final = 3
"""Most texts of a reason, and of kept documents."""
_MOST_CHARACTERS: Final = 400


def sample_files(folder: Path) -> list[RecordedFile]:
    """Return Arrow files of a stage's folder, evenly sampled if there are many."""
    paths = sorted(folder.glob("*.arrow"))
    count = min(len(paths), _MOST_FILES)
    return [_find_part(folder, paths[number * len(paths) // count].name) for number in range(count)]


def _find_part(folder: Path, name: str) -> RecordedFile:
    return find_file(folder.parent, Path(name).stem, f"{folder.name}/{name}")


def sample_kept(files: Sequence[RecordedFile]) -> list[tuple[str, str]]:
    """Return text and origin of the documents with the smallest uids, a random sample."""
    uids = (
        (uid, number)
        for number, file in enumerate(files)
        for batch in read_batches(file, ("uid",))
        for uid in batch.column("uid").to_pylist()
    )
    return [
        _find_document(files[number], uid) for uid, number in heapq.nsmallest(_MOST_TEXTS, uids)
    ]


def sample_rejects(
    files: Sequence[RecordedFile], earlier: Path | None
) -> dict[str, list[tuple[str, str]]]:
    """Return text and origin of some rejected documents for each reason.

    `earlier` is the folder of the documents that the stage read. It holds the texts that rejections
    omit; a text is "" if nothing holds it.
    """
    chosen: dict[str, list[tuple[bool, bytes, int, Rejection]]] = {}

    for number, file in enumerate(files):
        for reject in read_rejects(file):
            entries = chosen.setdefault(reject.reason, [])
            entries.append(
                (reject.sample_text is None and earlier is None, reject.uid, number, reject)
            )
            entries.sort(key=lambda entry: entry[:3])
            del entries[_MOST_TEXTS:]

    samples: dict[str, list[tuple[str, str]]] = {}

    for reason, entries in chosen.items():
        for _, uid, number, reject in entries:
            text = reject.sample_text or ""
            name = files[number].path.name
            if not text and earlier is not None and (earlier / name).exists():
                text, _ = _find_document(_find_part(earlier, name), uid)
            origin = (
                f"{reject.source} at {reject.offset:,}",
                f"{reject.n_chars:,} characters",
                reject.detail,
            )
            samples.setdefault(reason, []).append((_cut(text), " · ".join(filter(None, origin))))

    return samples


def _find_document(file: RecordedFile, uid: bytes) -> tuple[str, str]:
    """Return the start of the text and the origin of a document.

    "" if the file does not hold it.
    """
    for batch in read_batches(file, ("uid", "text", "url", "source", "offset")):
        uids = batch.column("uid")
        if (row := uids.index(pa.scalar(uid, uids.type)).as_py()) >= 0:
            text, url, source, offset = (
                batch.column(name)[row].as_py() for name in ("text", "url", "source", "offset")
            )
            return _cut(text), url or f"{source} at {offset:,}"
    return "", ""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS].rstrip()} …"
