"""The training text of a tokenizer: chosen documents, in an order that does not depend on the number of tasks."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import pyarrow.compute as pc

from pipeline.documents.files import read_batches
from pipeline.recorded_file import RecordedFile
from pipeline.seeding import fraction
from pipeline.splits import is_heldout

__all__ = ["SAMPLE_VERSION", "TrainingText", "choose_sample"]

SAMPLE_VERSION: Final = 1
_BUCKET_BYTES: Final = 1 << 26
_BUCKET_LIMIT: Final = 256
_COLUMNS: Final = ("uid", "text", "target_text")
Part: TypeAlias = Path | RecordedFile
_HEAD: Final = struct.Struct("<16sI")


@dataclass
class TrainingText:
    """The chosen documents on disk, spread over files by the first bits of their uid; counts of those left out."""

    documents: int = 0
    bytes: int = 0
    held_out: int = 0
    over_budget: int = 0
    files: list[Path] = field(default_factory=list)

    def texts(self) -> Iterator[str]:
        """Yield the texts by uid, both sides of a pair. One file is in memory, at most a few times 64 MiB."""
        for path in self.files:
            yield from (text for _, text in sorted(_read(path)))


def choose_sample(parts: Sequence[Part], budget: int, heldout: float, seed: int, folder: Path) -> TrainingText:
    """Choose documents that are not held out, about `budget` bytes of them, and write their texts below `folder`.

    Each document is chosen by a keyed word of its uid, with probability budget / bytes of all that could be: so the
    sample depends on the set of documents alone.

    Args:
        parts: files of documents.
        budget: bytes of UTF-8 text wanted; the sample comes within a few per cent where documents are many.
        heldout: share of documents held out.
        seed: the recipe's seed.
        folder: where to write; the caller removes it.
    """
    available = sum(size for part in parts for size in _sizes(part, heldout, seed))
    probability = min(1.0, budget / available) if available else 1.0
    expected = int(available * probability)
    count = min(_BUCKET_LIMIT, 1 << (expected // _BUCKET_BYTES).bit_length())
    sample = TrainingText(files=[folder / f"{bucket:03d}" for bucket in range(count)])
    with ExitStack() as stack:
        buckets: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in sample.files]
        for part in parts:
            _spread(part, probability, heldout, seed, sample, buckets)
    return sample


def temporary_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """Make a folder for one process that draws the sample, removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="sample-", dir=parent)


def _sizes(part: Part, heldout: float, seed: int) -> Iterator[int]:
    for batch in read_batches(part, _COLUMNS):
        sizes = pc.binary_length(batch.column("text")).to_pylist()
        uids = batch.column("uid").to_pylist()
        others = pc.fill_null(pc.binary_length(batch.column("target_text")), 0).to_pylist()
        sides = zip(uids, sizes, others, strict=True)
        yield from (size + other for uid, size, other in sides if not is_heldout(uid, heldout, seed))


def _spread(
    part: Part,
    probability: float,
    heldout: float,
    seed: int,
    sample: TrainingText,
    buckets: Sequence[BinaryIO],
) -> None:
    for batch in read_batches(part, _COLUMNS):
        for uid, text, other in zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True):
            if is_heldout(uid, heldout, seed):
                sample.held_out += 1
            elif fraction(uid, "tokenizer", seed) >= probability:
                sample.over_budget += 1
            else:
                sample.documents += 1
                for side in (text,) if other is None else (text, other):
                    raw = side.encode()
                    buckets[uid[0] * len(buckets) >> 8].write(_HEAD.pack(uid, len(raw)) + raw)
                    sample.bytes += len(raw)


def _read(path: Path) -> Iterator[tuple[bytes, str]]:
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            uid, size = _HEAD.unpack(head)
            yield uid, file.read(size).decode()
