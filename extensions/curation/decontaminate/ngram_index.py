"""Index the n-grams of evaluation items, and find them in documents.

Every n-gram of words of a text in the match form is an entry. A text of 5 to n - 1 words is one
entry (GPT-3, arXiv 2005.14165, appendix C). In scripts without spaces, three characters count as a
word. Hashes only say where to look: each match is compared word by word, so a collision of hashes
never removes a document.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.pipeline.text.normal_form import (
    CHARACTERS_PER_WORD,
    fold,
    is_unspaced,
    match_words,
)
from clozeline.pipeline.text.word_hashes import hash_ngrams, hash_words
from clozeline.recorded_file import RecordedFile

INDEX_VERSION: Final = 3
"""raised when other n-grams are found, or the format of the file changes"""
FEWEST_WORDS: Final = 5
"""words in the shortest entry; in an entry of fewer than n words, the hash covers as many words"""
_SCHEMA: Final = pa.schema(
    [
        pa.field(name, type_, nullable=False)
        for name, type_ in (
            ("run", pa.large_utf8()),
            ("item", pa.large_utf8()),
            ("words", pa.uint16()),
            ("hash", pa.uint64()),
        )
    ]
)


@dataclass(frozen=True)
class NgramIndex:
    """Entries in the order of their first occurrence; all arrays have the shape [entries]."""

    ngram: int
    runs: Any
    """Arrow array: the words of each entry, separated by spaces"""
    items: Any
    """Arrow array: the first item that contains the entry"""
    words: NDArray[np.uint16]
    """number of words in the entry"""
    hashes: UInt64
    """hash of the first n words of the entry, or of the first 5 if it is shorter"""

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def lookups(self) -> list[tuple[int, UInt64, NDArray[np.intp]]]:
        """Return (words that the hashes cover, ascending hashes, their entries) for both sizes."""
        lookups = []
        for size, chosen in _find_hash_sizes(self.words, self.ngram):
            entries = np.flatnonzero(chosen)
            entries = entries[np.argsort(self.hashes[entries], kind="stable")]
            lookups += [(size, self.hashes[entries], entries)] if len(entries) else []
        return lookups


def runs_of(words: Sequence[str], ngram: int) -> list[str]:
    """Return the n-grams of a text, words separated by spaces; entry k starts with word k.

    An n-gram is the shortest run of `ngram` words; in a script without spaces, three characters
    count as a word. A text with fewer words is one entry if it has at least five words.
    """
    # sizes in thirds of a word, so that sums are exact
    sizes = [1 if is_unspaced(word[0]) else CHARACTERS_PER_WORD for word in words]
    before = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    total = int(before[-1])
    if total < CHARACTERS_PER_WORD * FEWEST_WORDS:
        return []
    ends = np.searchsorted(before, before[:-1] + min(CHARACTERS_PER_WORD * ngram, total))
    return [
        " ".join(words[start:end]) for start, end in enumerate(ends.tolist()) if end <= len(words)
    ]


def build_index(items: Iterable[tuple[str, Sequence[str]]], ngram: int) -> NgramIndex:
    """Return the index of items, each given by its name and its texts."""
    # the name of the first item that contains each entry
    entries: dict[str, str] = {}

    for name, texts in items:
        for text in texts:
            for run in runs_of(match_words(text), ngram):
                entries.setdefault(run, name)

    # hash entries of full length and shorter ones
    words = np.array([run.count(" ") + 1 for run in entries], np.uint16)
    hashes = np.empty(len(words), np.uint64)
    of_words = hash_words(" ".join(entries).encode(errors="surrogatepass"))
    starts = np.cumsum(words, dtype=np.int64) - words

    for size, chosen in _find_hash_sizes(words, ngram):
        hashes[chosen] = hash_ngrams(of_words, size)[starts[chosen]]

    runs, names = (
        pa.array(column, pa.large_utf8()) for column in (entries.keys(), entries.values())
    )
    return NgramIndex(ngram, runs, names, words, hashes)


def _find_hash_sizes(words: NDArray[np.uint16], ngram: int) -> list[tuple[int, NDArray[np.bool_]]]:
    """Return the numbers of words that hashes cover, and which entries have such a hash."""
    return [(ngram, words >= ngram), (FEWEST_WORDS, words < ngram)]


def write_index(path: Path, index: NgramIndex) -> None:
    """Write an index as an Arrow file with one row for each entry."""
    schema = _SCHEMA.with_metadata({"ngram": str(index.ngram)})
    batch = pa.record_batch(
        [index.runs, index.items, pa.array(index.words), pa.array(index.hashes)], schema=schema
    )
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(batch)


@lru_cache(maxsize=1)
def open_index(file: RecordedFile) -> NgramIndex:
    """Map an index after checking its recorded hash; it stays open until the next index is."""
    with pa.ipc.open_file(file.buffer()) as reader:
        runs, names, words, hashes = reader.get_batch(0).columns
        return NgramIndex(
            int(reader.schema.metadata[b"ngram"]), runs, names, words.to_numpy(), hashes.to_numpy()
        )


class Matcher:
    """Finds the entries of an n-gram index in texts."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return (word, entry) for each entry in a text, sorted.

        `word` is the index of the entry's first word among `match_words(text)`.
        """
        hashes = hash_words(fold(text))
        words = list[str]()
        index = self.index
        matches = []

        for size, known, entries in index.lookups:
            runs = hash_ngrams(hashes, size)
            first = np.searchsorted(known, runs)
            has_hash = known[np.minimum(first, len(known) - 1)] == runs

            # compare the words of each entry with an equal hash
            for start in np.flatnonzero(has_hash).tolist():
                words = words or match_words(text)
                last = int(np.searchsorted(known, runs[start], "right"))
                for entry in entries[first[start] : last].tolist():
                    run = " ".join(words[start : start + int(index.words[entry])])
                    matches += [(start, entry)] if run == index.runs[entry].as_py() else []

        return sorted(matches)
