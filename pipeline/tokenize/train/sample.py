"""Sample the training text of a tokenizer; the sample does not depend on the number of tasks.

A pass counts the bytes of each part by language, and a unit sets the mean copies of a text. Then a
pass sends the sampled texts of each part, compressed, to ranges of uids, which training reads in
order.
"""

import io
import json
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import zstandard

from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output, require_equal
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.kernels.rates import power_shares
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import fraction

_STAGE: Final = "train_tokenizer"
_COPIES: Final = f"{TEMPORARY}/copies.json"
"""File with the mean number of copies of a text by language."""
_RANGE_BYTES: Final = 1 << 26
_RANGE_LIMIT: Final = 256
_COLUMNS: Final = ("uid", "text", "target_text", "language", "target_language")
MOST_COPIES: Final = 4
"""most copies of a text in a small language"""
_RECORD_HEADER: Final = struct.Struct("<16sI")


class TrainTokenizerCounts(Counts, total=False):
    """Counts of the units."""

    measured: int
    """documents whose bytes were counted"""
    available: dict[str, int]
    """bytes that are not held out, by language, `en-sw` for pairs"""
    skipped: dict[str, int]
    """documents outside the sample, by reason"""
    sample: dict[str, Any]
    """training text: `documents`, `bytes`, and `languages` with the bytes of each language"""
    vocabulary: dict[str, int]
    """number of ids: `asked` in the configuration, and `size` of the trained vocabulary"""


def name_ranges(budget: int) -> tuple[str, ...]:
    """Return the names of the ranges of uids: powers of two, at most 64 MiB of texts each."""
    count = min(_RANGE_LIMIT, 1 << (budget // _RANGE_BYTES).bit_length())
    return tuple(f"{number:03d}-of-{count:03d}" for number in range(count))


def read_sample(inputs: UnitInputs, texts: Shuffle, size: int) -> Iterator[str]:
    """Yield the `size` bytes of texts in the order of their uids, both sides of a pair.

    One range, about 64 MiB, is in memory at a time.
    """
    read = 0
    for name in texts.destinations:
        pieces = texts.pieces.read(inputs, _STAGE, name)
        for _, text in sorted(chain.from_iterable(_read_texts(piece) for _, piece in pieces)):
            read += len(text.encode())
            yield text
    require_equal(_STAGE, "bytes of the sample", size, "bytes trained on", read)


def mean_copies(available: Mapping[str, int], budget: int, alpha: float) -> dict[str, float]:
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
        name: min(MOST_COPIES, float(size * share / available[name]))
        for name, share in power_shares(available, alpha).items()
    }


@dataclass(frozen=True)
class MeasureText(Unit[TrainTokenizerCounts]):
    """Counts the documents of a part, and their bytes by language."""

    part: str
    heldout: float
    seed: int

    def run(self, inputs: UnitInputs, output: Output) -> TrainTokenizerCounts:
        measured = 0
        available: Counter[str] = Counter()
        for uid, language, sides in _read_sides(open_documents(inputs, self.part)):
            measured += 1
            if not is_heldout(uid, self.heldout, self.seed):
                available[language] += sum(map(len, sides))
        return {"measured": measured, "available": dict(+available)}


@dataclass(frozen=True)
class SetShares(Unit[TrainTokenizerCounts]):
    """Writes the mean number of copies of a text by language, from the bytes of all parts."""

    budget: int
    alpha: float

    def run(self, inputs: UnitInputs, output: Output) -> TrainTokenizerCounts:
        available = inputs.sum_counts(_STAGE, "measure")["available"]
        means = mean_copies(available, self.budget, self.alpha)
        with output.file(_COPIES) as path:
            path.write_text(json.dumps(means, sort_keys=True), encoding="utf-8")
        return {}


@dataclass(frozen=True)
class SampleText(Unit[TrainTokenizerCounts]):
    """Sends the sampled texts of a part to the ranges of their uids.

    A hash of a document's uid determines the number of its copies (`mean_copies`), so the sample
    depends only on the set of documents. With many documents it is within a few percent of the
    budget. At most 64 MiB of texts, and those of a document, are in memory.
    """

    part: str
    heldout: float
    seed: int
    texts: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> TrainTokenizerCounts:
        file = inputs.file(_STAGE, "shares", "000000", _COPIES)
        means: dict[str, float] = json.loads(file.buffer().to_pybytes())
        skipped = {"held_out": 0, "over_budget": 0}
        languages: Counter[str] = Counter()
        documents = 0
        ranges = [bytearray() for _ in self.texts.destinations]
        compressor = zstandard.ZstdCompressor()

        with self.texts.write(output, self.part) as pieces:

            def flush() -> None:
                for texts in ranges:
                    pieces.add([compressor.compress(texts)])
                    texts.clear()

            for uid, language, sides in _read_sides(open_documents(inputs, self.part)):
                if is_heldout(uid, self.heldout, self.seed):
                    skipped["held_out"] += 1
                    continue
                full, further = divmod(means.get(language, 1.0), 1.0)  # no text, no mean
                count = int(full) + (fraction(uid, "tokenizer", self.seed) < further)
                documents += count > 0
                skipped["over_budget"] += count == 0
                for side in count * sides:
                    texts = ranges[uid[0] * len(ranges) >> 8]
                    texts += _RECORD_HEADER.pack(uid, len(side)) + side
                    languages[language] += len(side)
                if sum(map(len, ranges)) > _RANGE_BYTES:
                    flush()
            flush()

        return {
            "documents_in": documents + sum(skipped.values()),
            "skipped": skipped,
            "sample": {
                "documents": documents,
                "bytes": languages.total(),
                "languages": dict(languages),
            },
        }


def _read_sides(documents: RecordedFile) -> Iterator[tuple[bytes, str, list[bytes]]]:
    """Yield uid, language and text of each document; of a pair, both languages and both texts."""
    for batch in read_batches(documents, _COLUMNS):
        columns = (batch.column(name).to_pylist() for name in _COLUMNS)
        for uid, text, other, language, other_language in zip(*columns, strict=True):
            if other is None:
                yield uid, language, [text.encode()]
            else:
                yield uid, f"{language}-{other_language or 'und'}", [text.encode(), other.encode()]


def _read_texts(piece: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the uids and texts of a piece: of one frame, or of several in a bundle."""
    frames = zstandard.ZstdDecompressor().stream_reader(piece, read_across_frames=True)
    content = io.BytesIO(frames.read())
    while head := content.read(_RECORD_HEADER.size):
        uid, size = _RECORD_HEADER.unpack(head)
        yield uid, content.read(size).decode()
