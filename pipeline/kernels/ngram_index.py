"""An index of the runs of words of evaluation items, and the lookup of all runs of documents in it.

Every run of n words of a text in the match form is an entry, and a text of 5 to n - 1 words is one
entry (GPT-3, arXiv 2005.14165, appendix C). Three characters of a script without blanks are a word.
Hashes only say where to look: a match is confirmed word by word, so that no collision of hashes
removes a document.
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
from clozeline.pipeline.text.normal_form import CHARACTERS_PER_WORD, is_unspaced, match_words
from clozeline.pipeline.text.word_hashes import WordHashes, hashes_of, ngram_hashes
from clozeline.recorded_file import RecordedFile

INDEX_VERSION: Final = 3
"""Raised when other runs are found, or the file has another form."""
FEWEST_WORDS: Final = 5
"""Words of the shortest entry, and those of a shorter entry that its hash covers."""
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
    """Entries in the order in which items hold them first, all arrays of shape [entries]."""

    ngram: int
    runs: Any
    """Arrow array: the words of each entry, separated by blanks"""
    items: Any
    """Arrow array: the first item that holds it"""
    words: NDArray[np.uint16]
    """number of its words"""
    hashes: UInt64
    """hash of the first n words of an entry, of the first 5 of a shorter one"""

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def lookups(self) -> list[tuple[int, UInt64, NDArray[np.intp]]]:
        """For each number of words that hashes cover: that number, the hashes, ascending, and the entry of each."""
        lookups = []
        for size, chosen in _sizes(self.words, self.ngram):
            entries = np.flatnonzero(chosen)
            entries = entries[np.argsort(self.hashes[entries], kind="stable")]
            lookups += [(size, self.hashes[entries], entries)] if len(entries) else []
        return lookups


def runs_of(words: Sequence[str], ngram: int) -> list[str]:
    """Return the runs of a text that are entries, separated by blanks; the run at index k starts with word k.

    A run is the shortest that has `ngram` words, where three characters of a script without blanks
    count as one; a text with fewer words is a run if it has five.
    """
    # in shares of a word, so that sums are exact
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
    """Return the index of items, each with its name and its texts."""
    entries: dict[str, str] = {}
    for name, texts in items:
        for text in texts:
            for run in runs_of(match_words(text), ngram):
                entries.setdefault(run, name)
    words = np.array([run.count(" ") + 1 for run in entries], np.uint16)
    hashes = np.empty(len(words), np.uint64)
    word_hashes = WordHashes()
    for size, chosen in _sizes(words, ngram):
        digests = (
            word_hashes.digests(run)[: 8 * size]
            for run, own in zip(entries, chosen, strict=True)
            if own
        )
        hashes[chosen] = ngram_hashes(hashes_of(b"".join(digests)), size)[::size]
    runs, names = (
        pa.array(column, pa.large_utf8()) for column in (entries.keys(), entries.values())
    )
    return NgramIndex(ngram, runs, names, words, hashes)


def _sizes(words: NDArray[np.uint16], ngram: int) -> list[tuple[int, NDArray[np.bool_]]]:
    """Return the numbers of words that hashes cover, and which entries have such a hash."""
    return [(ngram, words >= ngram), (FEWEST_WORDS, words < ngram)]


def write_index(path: Path, index: NgramIndex) -> None:
    """Write an index as an Arrow file with a row for each entry."""
    schema = _SCHEMA.with_metadata({"ngram": str(index.ngram)})
    batch = pa.record_batch(
        [index.runs, index.items, pa.array(index.words), pa.array(index.hashes)], schema=schema
    )
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(batch)


@lru_cache(maxsize=1)
def open_index(file: RecordedFile) -> NgramIndex:
    """Map an index, after comparing it with its recorded hash; it is kept until another is opened."""
    with pa.ipc.open_file(file.buffer()) as reader:
        runs, names, words, hashes = reader.get_batch(0).columns
        return NgramIndex(
            int(reader.schema.metadata[b"ngram"]), runs, names, words.to_numpy(), hashes.to_numpy()
        )


class Matcher:
    """Finds the entries of an index in texts."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index
        self._words = WordHashes()

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return (word, entry) for each entry in a text, sorted; `word` is the index among `match_words(text)`."""
        hashes = self._words.hashes(text)
        words = list[str]()
        index = self.index
        found = []
        for size, known, entries in index.lookups:
            runs = ngram_hashes(hashes, size)
            first = np.searchsorted(known, runs)
            for start in np.flatnonzero(known[np.minimum(first, len(known) - 1)] == runs).tolist():
                words = words or match_words(text)
                last = int(np.searchsorted(known, runs[start], "right"))
                for entry in entries[first[start] : last].tolist():
                    run = " ".join(words[start : start + int(index.words[entry])])
                    found += [(start, entry)] if run == index.runs[entry].as_py() else []
        return sorted(found)
