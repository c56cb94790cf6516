"""An index of the word n-grams of evaluation items, and the lookup of all n-grams of documents in it.

Every text of an item is a *field*: its words in the match form. Every run of n words is an entry, and a field of 5 to
n - 1 words is one entry (GPT-3, arXiv 2005.14165, appendix C). Hashes only say where to look: a match is confirmed
word by word, so that no collision of hashes removes a document.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import segments
from clozeline.pipeline.text.normal_form import MATCH_VERSION, match_words
from clozeline.pipeline.text.word_hashes import WordHashes, hashes_of, ngram_hashes
from clozeline.recorded_file import RecordedFile
from clozeline.repair import repair_of

INDEX_VERSION: Final = 1
"""Raised when other n-grams are found."""
INDEX_FILE: Final = "index.arrow"
FEWEST_WORDS: Final = 5
"""Words of the shortest entry, and those of a shorter entry that its hash covers."""
_SLOTS: Final = 16  # slots of the prefilter for each entry: one lookup in 16 goes on to the binary search
_MOST_SLOT_BITS: Final = 26

_COLUMNS: Final = {
    "words": pa.large_binary(), "starts": pa.large_list(pa.int64()), "fields": pa.large_list(pa.int64()),
    "entries": pa.large_list(pa.int32()), "hashes": pa.large_list(pa.uint64()), "sizes": pa.large_list(pa.uint16()),
    "positions": pa.large_list(pa.int64()), "item_fields": pa.large_list(pa.int64()),
    "item_bounds": pa.large_list(pa.int64()), "item_files": pa.large_list(pa.int64()),
    "item_rows": pa.large_list(pa.int64()), "item_names": pa.large_list(pa.large_utf8()),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an evaluation file."""

    row: int
    """index of its first line, or of the row in files without lines"""
    name: str
    """its `id`, or else the row"""
    texts: tuple[str, ...]


@dataclass(frozen=True)
class NgramIndex:
    """Entries and the items that hold them; arrays are read-only views of a mapped file.

    Word w of all W words is `words[starts[w] : starts[w + 1] - 1]`, in UTF-8. Field f of F has the words `fields[f]`
    to `fields[f + 1]`. Item i has the fields `item_fields[item_bounds[i] : item_bounds[i + 1]]`.
    """

    ngram: int
    words: memoryview
    starts: Int64  # [W + 1]
    fields: Int64  # [F + 1]
    entries: NDArray[np.int32]  # [W]: the entry that starts at each word, or -1
    hashes: UInt64  # [E]: of the first words of each entry; ascending for entries of n words, then for shorter ones
    sizes: NDArray[np.uint16]  # [E]: words of each entry
    positions: Int64  # [E]: the first word of each entry
    item_fields: Int64
    item_bounds: Int64  # [I + 1]
    item_files: Int64  # [I]: index of the evaluation file
    item_rows: Int64  # [I]
    item_names: Any  # [I]: an Arrow array of texts

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def full(self) -> int:
        """Number of the entries of n words, which come first."""
        return int((self.sizes == self.ngram).sum())

    def entry(self, entry: int) -> str:
        """Return the words of an entry, separated by blanks."""
        first = int(self.positions[entry])
        return str(self.words[self.starts[first] : self.starts[first + int(self.sizes[entry])] - 1], "utf-8")

    def items_of(self, entry: int) -> Int64:
        """Return the items that hold an entry, ascending."""
        (bounds, owners), (word_bounds, starts) = self._owners, self._words_of
        words = starts[word_bounds[entry] : word_bounds[entry + 1]]
        fields = np.unique(np.searchsorted(self.fields, words, "right") - 1)
        return np.unique(np.concatenate([owners[bounds[field] : bounds[field + 1]] for field in fields.tolist()]))

    def covered(self, chosen: Bool) -> tuple[Int64, Int64]:
        """Return the words of each item, and those inside of chosen entries, both [I]; `chosen` is [E]."""
        starts = np.flatnonzero(self.entries >= 0)
        starts = starts[chosen[self.entries[starts]]]
        # +1 where an entry starts, -1 after its end: the running sum is above 0 inside of entries
        edges = np.bincount(starts, minlength=len(self.starts))
        ends = starts + self.sizes[self.entries[starts]]
        inside = np.cumsum(edges - np.bincount(ends, minlength=len(self.starts)))[:-1] > 0
        by_field = np.diff(np.concatenate(([0], np.cumsum(inside)))[self.fields])
        sums = [np.concatenate(([0], np.cumsum(part[self.item_fields]))) for part in (np.diff(self.fields), by_field)]
        total, found = (np.diff(part[self.item_bounds]) for part in sums)
        return total, found

    @cached_property
    def _words_of(self) -> tuple[Int64, Int64]:
        """The words at which each entry starts, by entry: bounds [E + 1], and the words."""
        words = np.flatnonzero(self.entries >= 0)
        words = words[np.argsort(self.entries[words], kind="stable")]
        return np.searchsorted(self.entries[words], np.arange(len(self) + 1)), words

    @cached_property
    def _owners(self) -> tuple[Int64, Int64]:
        """The items of each field: bounds [F + 1], and the items."""
        items = np.repeat(np.arange(len(self.item_files)), np.diff(self.item_bounds))
        order = np.argsort(self.item_fields, kind="stable")
        return np.searchsorted(self.item_fields[order], np.arange(len(self.fields))), items[order]


def build_index(items: Iterable[tuple[int, Item]], ngram: int) -> NgramIndex:
    """Return the index of items, each with the index of its file; equal fields are stored once."""
    known: dict[str, int] = {}
    digests, word_hashes = list[bytes](), WordHashes()
    item_fields, item_bounds = list[int](), [0]
    rows: list[tuple[int, int, str]] = []
    for file, item in items:
        for text in item.texts:
            if not (words := " ".join(match_words(text))):
                continue
            if words not in known:
                known[words] = len(known)
                digests.append(word_hashes.digests(text))
            item_fields.append(known[words])
        item_bounds.append(len(item_fields))
        rows.append((file, item.row, item.name))
    content = "".join(f"{words} " for words in known).encode()
    starts = np.concatenate(([0], np.flatnonzero(np.frombuffer(content, np.uint8) == ord(" ")) + 1))
    hashes = hashes_of(b"".join(digests))
    lengths = np.array([len(digest) // 8 for digest in digests], np.int64)
    fields = np.concatenate(([0], np.cumsum(lengths)))
    # first words and sizes of runs [R]: every run of n words inside of a field, and shorter fields from 5 words
    runs = np.flatnonzero(np.arange(len(hashes)) + ngram <= np.repeat(fields[1:], lengths))
    short = (lengths >= FEWEST_WORDS) & (lengths < ngram)
    positions, sizes = np.concatenate((runs, fields[:-1][short])), np.full(len(runs) + int(short.sum()), ngram)
    sizes[len(runs) :] = lengths[short]
    # hashes of complete runs, by which equal ones are found, and of what the lookup compares: 5 words of short ones
    complete = np.empty(len(sizes), np.uint64)
    for size in np.unique(sizes).tolist():
        complete[sizes == size] = ngram_hashes(hashes, size)[positions[sizes == size]]
    compared = complete.copy()
    compared[len(runs) :] = ngram_hashes(hashes, FEWEST_WORDS)[positions[len(runs) :]]
    order = np.lexsort((positions, complete, compared, sizes < ngram))
    positions, sizes, complete, compared = positions[order], sizes[order], complete[order], compared[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (complete[1:] != complete[:-1]) | (sizes[1:] != sizes[:-1])
    for row in np.flatnonzero(~new).tolist():  # equal hashes: the words decide
        texts = [content[starts[first] : starts[first + sizes[row]]] for first in positions[row - 1 : row + 1]]
        new[row] = texts[0] != texts[1]
    entries = np.full(len(hashes), -1, np.int32)
    entries[positions] = np.cumsum(new) - 1
    return NgramIndex(
        ngram, memoryview(content), starts, fields, entries, compared[new], sizes[new].astype(np.uint16),
        positions[new], np.array(item_fields, np.int64), np.array(item_bounds, np.int64),
        np.array([file for file, _, _ in rows], np.int64), np.array([row for _, row, _ in rows], np.int64),
        pa.array([name for _, _, name in rows], pa.large_utf8()),
    )  # fmt: skip


def write_index(path: Path, index: NgramIndex) -> None:
    """Write an index as an Arrow file of one row: a list for each array."""
    metadata = {"format": str(INDEX_VERSION), "match_version": str(MATCH_VERSION), "ngram": str(index.ngram)}
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()], metadata)
    columns = []
    for name, kind in _COLUMNS.items():
        values = getattr(index, name)
        if name == "words":
            columns.append(pa.array([values], kind))
        else:
            values = values if isinstance(values, pa.Array) else pa.array(values, kind.value_type)
            columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values, type=kind))
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))


def open_index(file: RecordedFile) -> NgramIndex:
    """Map an index, after comparing it with its recorded hash; one with a hash is kept until another is opened."""
    return _kept_index(file) if file.xxh3_128 else _map_index(file)


@lru_cache(maxsize=1)
def _kept_index(file: RecordedFile) -> NgramIndex:
    return _map_index(file)


def _map_index(file: RecordedFile) -> NgramIndex:
    try:
        with pa.ipc.open_file(file.buffer()) as reader:
            row, metadata = reader.get_batch(0), reader.schema.metadata
        expected = {b"format": str(INDEX_VERSION).encode(), b"match_version": str(MATCH_VERSION).encode()}
        if {key: metadata[key] for key in expected} != expected:
            raise IntegrityError(f"{file.path}: expected {expected}, got {metadata}; {repair_of(file.path)}")
        arrays = {name: row.column(name).values for name in _COLUMNS if name != "words"}
        names = arrays.pop("item_names")
        views = {name: array.to_numpy(zero_copy_only=True) for name, array in arrays.items()}
        return NgramIndex(
            int(metadata[b"ngram"]), memoryview(row.column("words")[0].as_buffer()), item_names=names, **views
        )
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{file.path}: not an index of evaluation items ({error}); {repair_of(file.path)}"
        ) from error


class _Lookup:
    """Finds hashes of runs of `size` words among those of entries: a table of slots, then a binary search."""

    def __init__(self, hashes: UInt64, size: int, first: int) -> None:
        self.hashes, self.size, self.first = hashes, size, first
        bits = min(max(10, (_SLOTS * len(hashes)).bit_length()), _MOST_SLOT_BITS)
        self._shift = np.uint64(64 - bits)
        self._slots = np.zeros(1 << bits, dtype=bool)
        self._slots[hashes >> self._shift] = True

    def find(self, words: UInt64) -> Iterator[tuple[int, int]]:
        """Yield the words at which runs of equal hashes start, and the first entry with the hash, by words."""
        runs = ngram_hashes(words, self.size)
        likely = np.flatnonzero(self._slots[runs >> self._shift])
        asked = runs[likely]
        rows = np.searchsorted(self.hashes, asked)
        equal = self.hashes[np.minimum(rows, len(self.hashes) - 1)] == asked
        yield from zip(likely[equal].tolist(), (rows[equal] + self.first).tolist(), strict=True)


class Matcher:
    """Finds the entries of an index in documents."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index
        self._words = WordHashes()
        parts = ((slice(index.full), index.ngram, 0), (slice(index.full, None), FEWEST_WORDS, index.full))
        self._lookups = [_Lookup(hashes, *rest) for part, *rest in parts if len(hashes := index.hashes[part])]

    def find(self, texts: Sequence[str] | pa.StringArray) -> list[tuple[int, int, int]]:
        """Return (text, word, entry) for each entry in each text, sorted.

        All texts are looked up at once: `word` is the index of the entry's first word among `match_words(text)`.
        """
        column = texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.utf8())
        hashes, ends = self._hash_words(column)
        words: dict[int, list[str]] = {}
        matches = []
        for lookup in self._lookups:
            for at, entry in lookup.find(hashes):
                text = int(np.searchsorted(ends, at, "right"))
                if text not in words:
                    words[text] = match_words(column[text].as_py())
                start = at - (int(ends[text - 1]) if text else 0)
                matches += [(text, start, equal) for equal in self._confirm(words[text], start, entry)]
        return sorted(set(matches))

    def _hash_words(self, texts: pa.StringArray) -> tuple[UInt64, Int64]:
        """Return the hashes of all words of all texts, and where those of each text end.

        No match-form word crosses a blank, so that each distinct token between blanks is hashed once.
        """
        lists = pc.ascii_split_whitespace(texts)
        tokens = lists.values.dictionary_encode()
        digests = list(map(self._words.__getitem__, tokens.dictionary.to_pylist()))
        lengths = np.array([len(digest) // 8 for digest in digests], np.int64)
        starts, codes = np.cumsum(lengths) - lengths, tokens.indices.to_numpy()
        counts = lengths[codes]
        hashes = segments(hashes_of(b"".join(digests)), starts[codes], counts)
        return hashes, np.concatenate(([0], np.cumsum(counts)))[lists.offsets.to_numpy()[1:]]

    def _confirm(self, words: Sequence[str], start: int, entry: int) -> Iterator[int]:
        """Yield the entries with the hash of this one whose words are those from `start` on; none crosses a text."""
        index, hashed = self.index, self.index.hashes[entry]
        while entry < len(index) and index.hashes[entry] == hashed:
            run = words[start : start + int(index.sizes[entry])]
            if " ".join(run) == index.entry(entry):
                yield entry
            entry += 1
