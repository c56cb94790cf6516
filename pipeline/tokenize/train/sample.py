"""Draw the training text of a tokenizer, independently of the number of tasks."""

import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import pyarrow.compute as pc

from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.kernels.rates import powers
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import fraction

SAMPLE_VERSION: Final = 1
_BUCKET_BYTES: Final = 1 << 26
_BUCKET_LIMIT: Final = 256
_COLUMNS: Final = ("uid", "text", "target_text", "language", "target_language")
MOST_COPIES: Final = 4
"""Maximum copies of a text of a small language."""
Part: TypeAlias = Path | RecordedFile
_HEAD: Final = struct.Struct("<16sI")


@dataclass
class TrainingText:
    """The sampled documents, distributed over files by the first bits of their uid, and counts of the others."""

    documents: int = 0
    bytes: int = 0
    held_out: int = 0
    over_budget: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    """bytes by language, `en-sw` for pairs"""
    files: list[Path] = field(default_factory=list)

    def texts(self) -> Iterator[str]:
        """Yield the texts by uid, both sides of a pair; a single file, about 64 MiB, is in memory at a time."""
        read = 0
        for path in self.files:
            for _, text in sorted(_read(path)):
                read += len(text.encode())
                yield text
        require_equal("train_tokenizer", "bytes of the sample", self.bytes, "bytes learned from", read)


def mean_copies(available: Mapping[str, int], budget: int, alpha: float) -> dict[str, Fraction]:
    """Return the mean number of copies of a text of each language in the sample, at most `MOST_COPIES`.

    A language gets a share of `budget` bytes proportional to its own bytes to the power of alpha (arXiv 1901.07291
    §3.1, 1911.02116).

    Args:
        available: bytes of each language, > 0.
        budget: total bytes of the sample.
        alpha: 0 (equal shares) to 1 (natural proportions).

    Example: 900 bytes of en and 100 of sw, a budget of 400 and alpha 0.5 give 1/3 and 1: 300 bytes and 100.
    """
    names = sorted(available)
    weights = powers([available[name] for name in names], Decimal(repr(alpha)))
    size = min(budget, sum(available.values()))
    return {
        name: min(Fraction(MOST_COPIES), size * weight / sum(weights) / available[name])
        for name, weight in zip(names, weights, strict=True)
    }


def choose_sample(
    parts: Sequence[Part], budget: int, heldout: float, seed: int, folder: Path, alpha: float = 1.0
) -> TrainingText:
    """Sample about `budget` bytes of training documents and write their texts to `folder`.

    A hash of a document's uid determines its copies (`mean_copies`), so the sample depends only on the set of
    documents. It is within a few percent of the budget for many documents. The caller removes the folder.
    """
    available: Counter[str] = Counter()
    for batch in (batch for part in parts for batch in read_batches(part, _COLUMNS)):
        sizes = pc.binary_length(batch.column("text")).to_pylist()
        others = pc.fill_null(pc.binary_length(batch.column("target_text")), 0).to_pylist()
        uids = batch.column("uid").to_pylist()
        for uid, language, size, other in zip(uids, _languages(batch), sizes, others, strict=True):
            available[language] += 0 if is_heldout(uid, heldout, seed) else size + other
    copies = mean_copies(+available, budget, alpha)
    expected = sum(int(available[language] * mean) for language, mean in copies.items())
    count = min(_BUCKET_LIMIT, 1 << (expected // _BUCKET_BYTES).bit_length())
    sample = TrainingText(files=[folder / f"{bucket:03d}" for bucket in range(count)])
    with ExitStack() as stack:
        buckets: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in sample.files]
        for part in parts:
            _write_copies(part, copies, heldout, seed, sample, buckets)
    return sample


def temporary_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder for the sample."""
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="sample-", dir=parent)


def _languages(batch: Any) -> list[str]:
    """Return the language of each document, or both languages of a pair."""
    sides = zip(
        *(batch.column(name).to_pylist() for name in ("language", "target_text", "target_language")), strict=True
    )
    return [own if text is None else f"{own}-{other or 'und'}" for own, text, other in sides]


def _write_copies(
    part: Part,
    copies: Mapping[str, Fraction],
    heldout: float,
    seed: int,
    sample: TrainingText,
    buckets: Sequence[BinaryIO],
) -> None:
    means = {language: divmod(float(mean), 1.0) for language, mean in copies.items()}
    for batch in read_batches(part, _COLUMNS):
        columns = (batch.column(name).to_pylist() for name in _COLUMNS[:3])
        for language, uid, text, other in zip(_languages(batch), *columns, strict=True):
            if is_heldout(uid, heldout, seed):
                sample.held_out += 1
                continue
            full, rest = means.get(language, (1.0, 0.0))  # a language without text has no mean
            count = int(full) + (fraction(uid, "tokenizer", seed) < rest)
            sample.documents += count > 0
            sample.over_budget += count == 0
            for side in count * ((text,) if other is None else (text, other)):
                raw = side.encode()
                buckets[uid[0] * len(buckets) >> 8].write(_HEAD.pack(uid, len(raw)) + raw)
                sample.bytes += len(raw)
                sample.languages[language] += len(raw)


def _read(path: Path) -> Iterator[tuple[bytes, str]]:
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            uid, size = _HEAD.unpack(head)
            yield uid, file.read(size).decode()
