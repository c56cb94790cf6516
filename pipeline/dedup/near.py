"""Near deduplication: MinHash signatures per part; `clusters` compares them.

A text is the set of its word n-grams in the match form. Each of `bands * rows` hash functions keeps
its minimum over the set. Two texts agree in a minimum with probability J, the Jaccard similarity of
their sets. Texts that agree in all rows of a band are candidates: P(J) = 1 - (1 - J**rows) **
bands, one half at J = 0.685 for 14 x 8 (Broder 1997; bands: Leskovec et al., chapter 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import Bool, UInt64
from clozeline.native import minhash
from clozeline.pipeline.dedup.parts import (
    DROP,
    DedupCounts,
    Schema,
    pack_rows,
    read_rows,
    send_by_hash,
    uid_column,
)
from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.shuffle import PieceFile, Pieces, Shuffle
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.normal_form import MATCH_VERSION, fold
from clozeline.pipeline.text.word_hashes import hash_bytes, hash_ngrams, hash_words
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import mix

NEAR_VERSION: Final = 3
"""Raised when a signature, or the rule that forms clusters, and so a decision, changes."""

_SHINGLE_BLOCK: Final = 256  # shingles hashed at once: 256 x 112 x 8 bytes fit into the L2 cache
KEY_ROW: Final = (("key", "<u8"), ("row", "<u4"))
"""Row of a band key: the key, and the row of its document in its part."""


@dataclass(frozen=True)
class Sketch:
    """MinHash signatures of texts, and the options that decide them.

    A text is the set of its shingles of `ngram` words; a shorter text is one shingle.
    """

    ngram: int = 5
    bands: int = 14
    rows: int = 8

    @property
    def schema(self) -> Schema:
        """The row type of a document; 16 bits of each minimum suffice to estimate similarity."""
        return ("uid", "S16"), ("priority", "<i8"), ("sketch", f"({self.bands * self.rows},)<u2")

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(list(self.schema))

    @cached_property
    def _functions(self) -> tuple[UInt64, UInt64]:
        """Factors and offsets of the hash functions, shape [bands * rows] each."""
        # raw bits never change between numpy versions, unlike the methods of Generator
        raw = np.random.PCG64(1).random_raw(2 * self.bands * self.rows).reshape(2, -1)
        # odd factors, so that multiplication modulo 2**64 is a bijection
        return raw[0] | np.uint64(1), raw[1]

    def shingles(self, text: str) -> UInt64:
        """Return a 64-bit hash per word n-gram; repeated ones do not change a minimum."""
        folded = fold(text)
        hashes = hash_words(folded)
        if not len(hashes):
            hashes = np.array([hash_bytes(folded)], np.uint64)
        return mix(hash_ngrams(hashes, min(self.ngram, len(hashes))))

    def signatures(self, texts: Sequence[str]) -> UInt64:
        """Return the minima of all functions over each text, shape [texts, bands * rows]."""
        factors, offsets = self._functions
        native = minhash.signatures(list(map(fold, texts)), self.ngram, factors, offsets)
        if native is not None:
            return native

        minima = np.full((len(texts), len(factors)), 2**64 - 1, dtype=np.uint64)

        for least, text in zip(minima, texts, strict=True):
            shingles = self.shingles(text)
            for start in range(0, len(shingles), _SHINGLE_BLOCK):
                block = shingles[start : start + _SHINGLE_BLOCK, None]
                np.minimum(least, (block * factors + offsets).min(axis=0), out=least)

        return minima

    def band_keys(self, signatures: UInt64) -> UInt64:
        """Return a 64-bit key per band, shape [..., bands], of signatures [..., bands * rows].

        The index of the band is the seed of its hash.
        """
        keys = minhash.band_keys(
            signatures.reshape(-1, self.bands * self.rows), self.bands, self.rows
        )
        if keys is None:
            raw = memoryview(signatures.tobytes())
            width = 8 * self.rows
            bands = range(len(raw) // width)
            hashes = [
                xxhash.xxh3_64_intdigest(raw[b * width : (b + 1) * width], seed=b % self.bands)
                for b in bands
            ]
            keys = np.array(hashes, dtype=np.uint64)

        return keys.reshape(*signatures.shape[:-1], self.bands)


def _documents_file(part: str) -> str:
    return f"tmp/near-documents/{part}.rows"


def open_sketches(inputs: UnitInputs, part: str) -> RecordedFile:
    """Return the file of the sketches of a part."""
    return inputs.file("dedup", "near-signatures", part, _documents_file(part))


def read_band_keys(
    inputs: UnitInputs, shuffle: Shuffle, part: str, is_chosen: Bool, bands: int
) -> UInt64:
    """Return the band keys of the chosen documents of a part, shape [chosen, bands]."""
    inputs.file("dedup", "near-signatures", part, shuffle.file(part))
    with PieceFile(inputs.find_folder("dedup"), shuffle.file(part)) as pieces:
        raw = b"".join(map(pieces.piece, range(len(pieces))))
    rows = np.frombuffer(raw, np.dtype(list(KEY_ROW)))
    rows = rows[is_chosen[rows["row"]]]
    keys: UInt64 = rows["key"][np.argsort(rows["row"], kind="stable")]
    return keys.reshape(-1, bands)


def write_signatures(
    output: Output, shuffle: Shuffle, name: str, documents: NDArray[Any], keys: UInt64
) -> None:
    """Write the documents of a part, and send their band keys [documents, bands] to ranges."""
    with output.file(_documents_file(name)) as path:
        path.write_bytes(documents.tobytes())

    owners = np.repeat(np.arange(len(documents), dtype=np.uint32), keys.shape[1])
    rows = pack_rows(KEY_ROW, {"key": keys.reshape(-1), "row": owners})
    send_by_hash(output, shuffle, name, rows, rows["key"], rows["row"])


@dataclass(frozen=True)
class NearSignatures(Unit[DedupCounts]):
    """Write the sketches of the documents of a part that exact dedup kept; send their band keys."""

    VERSION = NEAR_VERSION + MATCH_VERSION
    part: str
    sketch: Sketch
    keys: Shuffle
    drops: Pieces
    """documents that exact dedup drops"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        sketch = self.sketch
        keys = [np.empty((0, sketch.bands), np.uint64)]
        documents = [np.empty(0, sketch.dtype)]
        dropped = read_rows(inputs, self.drops, self.part, DROP)["uid"]

        for batch in read_batches(
            open_documents(inputs, self.part), ("uid", "text", "target_text", "n_chars")
        ):
            kept = ~np.isin(uid_column(batch.column("uid").to_pylist()), dropped)
            batch = batch.filter(pa.array(kept))
            rows = np.empty(len(batch), sketch.dtype)
            rows["uid"] = uid_column(batch.column("uid").to_pylist())
            rows["priority"] = np.asarray(batch.column("n_chars"))
            signatures = sketch.signatures(_join_sides(batch))
            rows["sketch"] = signatures.astype(np.uint16)
            documents.append(rows)
            keys.append(sketch.band_keys(signatures))

        found = np.concatenate(documents)
        write_signatures(output, self.keys, self.part, found, np.concatenate(keys))
        return {}


def _join_sides(batch: pa.RecordBatch) -> list[str]:
    """Return the texts of documents, with the other sides of pairs."""
    pairs = zip(
        batch.column("text").to_pylist(), batch.column("target_text").to_pylist(), strict=True
    )
    return [text if target is None else f"{text}\n{target}" for text, target in pairs]
