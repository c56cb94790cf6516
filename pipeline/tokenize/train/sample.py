"""Sample the training text of a tokenizer; the sample does not depend on the number of tasks."""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias

from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.kernels.rates import power_shares
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import fraction

SAMPLE_VERSION: Final = 1
_BUCKET_BYTES: Final = 1 << 26
_BUCKET_LIMIT: Final = 256
_COLUMNS: Final = ("uid", "text", "target_text", "language", "target_language")
MOST_COPIES: Final = 4
"""most copies of a text in a small language"""
Part: TypeAlias = Path | RecordedFile
_RECORD_HEADER: Final = struct.Struct("<16sI")


@dataclass
class TrainingText:
    """The sampled documents, in files by the first bits of their uids, and counts of all others."""

    documents: int = 0
    bytes: int = 0
    held_out: int = 0
    over_budget: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    """bytes by language, `en-sw` for pairs"""
    files: list[Path] = field(default_factory=list)

    def texts(self) -> Iterator[str]:
        """Yield the texts in the order of their uids, both sides of a pair.

        One file, about 64 MiB, is in memory at a time.
        """
        read = 0
        for path in self.files:
            for _, text in sorted(_read_texts(path)):
                read += len(text.encode())
                yield text
        require_equal(
            "train_tokenizer", "bytes of the sample", self.bytes, "bytes trained on", read
        )


def mean_copies(available: Mapping[str, int], budget: int, alpha: float) -> dict[str, Fraction]:
    """Return the mean number of copies of a text by language, at most `MOST_COPIES`.

    A language gets a share of `budget` bytes proportional to its bytes to the power of alpha (arXiv
    1901.07291 §3.1, 1911.02116).

    Args:
        available: bytes of each language, > 0.
        budget: total bytes of the sample.
        alpha: 0 (equal shares) to 1 (natural proportions).

    Example: 900 bytes of en and 100 of sw, a budget of 400 and alpha 0.5 give 1/3 and 1: 300 bytes
    and 100.
    """
    size = min(budget, sum(available.values()))
    return {
        name: min(Fraction(MOST_COPIES), size * share / available[name])
        for name, share in power_shares(available, alpha).items()
    }


def choose_sample(
    parts: Sequence[Part], budget: int, heldout: float, seed: int, folder: Path, alpha: float = 1.0
) -> TrainingText:
    """Sample about `budget` bytes of training documents and write their texts to `folder`.

    A hash of a document's uid determines the number of its copies (`mean_copies`), so the sample
    depends only on the set of documents. With many documents it is within a few percent of the
    budget. The caller removes the folder.
    """
    # the mean copies of each language, from the bytes that are not held out
    available: Counter[str] = Counter()
    for uid, language, sides in _read_sides(parts):
        available[language] += 0 if is_heldout(uid, heldout, seed) else sum(map(len, sides))
    copies = mean_copies(+available, budget, alpha)
    expected = sum(int(available[language] * mean) for language, mean in copies.items())
    means = {language: divmod(float(mean), 1.0) for language, mean in copies.items()}

    # write the copies of each document, distributed over files by the uid
    buckets = min(_BUCKET_LIMIT, 1 << (expected // _BUCKET_BYTES).bit_length())
    sample = TrainingText(files=[folder / f"{bucket:03d}" for bucket in range(buckets)])

    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in sample.files]

        for uid, language, sides in _read_sides(parts):
            if is_heldout(uid, heldout, seed):
                sample.held_out += 1
                continue
            full, further = means.get(language, (1.0, 0.0))  # a language without text has no mean
            count = int(full) + (fraction(uid, "tokenizer", seed) < further)
            sample.documents += count > 0
            sample.over_budget += count == 0
            for side in count * sides:
                files[uid[0] * buckets >> 8].write(_RECORD_HEADER.pack(uid, len(side)) + side)
                sample.bytes += len(side)
                sample.languages[language] += len(side)

    return sample


def _read_sides(parts: Sequence[Part]) -> Iterator[tuple[bytes, str, list[bytes]]]:
    """Yield uid, language and text of each document; of a pair, both languages and both texts."""
    for batch in (batch for part in parts for batch in read_batches(part, _COLUMNS)):
        columns = (batch.column(name).to_pylist() for name in _COLUMNS)
        for uid, text, other, language, other_language in zip(*columns, strict=True):
            if other is None:
                yield uid, language, [text.encode()]
            else:
                yield uid, f"{language}-{other_language or 'und'}", [text.encode(), other.encode()]


def _read_texts(path: Path) -> Iterator[tuple[bytes, str]]:
    with path.open("rb") as file:
        while head := file.read(_RECORD_HEADER.size):
            uid, size = _RECORD_HEADER.unpack(head)
            yield uid, file.read(size).decode()
