"""Compute the character offsets of tokens from the lengths of their pieces.

The library's call with offsets takes up to twice as long as its call without them.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers._pieces import Bounds, PieceTable
from clozeline.pipeline.tokenize.tokenizers._tokenizer import pieces_pattern

_COMPOSITIONS: Final = frozenset(("NFC", "NFD", "NFKC", "NFKD"))
"""normalizers that keep ASCII text"""
_LOCAL_NORMALIZERS: Final = _COMPOSITIONS | {
    "BertNormalizer",
    "Lowercase",
    "Nmt",
    "Precompiled",
    "StripAccents",
}
"""normalizers that change a character, or a character with its combining marks"""
_SPACES_TO_ONE: Final = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
_LOCAL_SPLITS: Final = (["BertPreTokenizer"], ["WhitespaceSplit", "Metaspace"])
_BYTE_SPLITS: Final = frozenset(
    ("ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "UnicodeScripts")
)
"""pre-tokenizers that add at most a space"""
_SPACE_MARK: Final = "\u2581"
_WRITES_MARKS: Final = (
    {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE_MARK},
    {"type": "Prepend", "prepend": _SPACE_MARK},
)
"""normalizers that change spaces to marks, and add one"""

_COUNT: Final = 0x07
"""bits of the number of characters that a character becomes"""
_UNKNOWN: Final = 0x08
"""has no piece of its own"""
_BARE: Final = 0x10
"""gets no mark of a word: white space, which is lost, or an added token"""
_LETTER: Final = 0x20
"""continues the word of a letter before it"""
_BLANK: Final = 0x40
"""a space that belongs to the word after it"""
_AFTER_BLANK: Final = 0x80
"""continues the word of a space before it; twice `_BLANK`"""
_UNSEEN: Final = 0xFE
_UNSAFE: Final = 0xFF
"""depends on the characters around it"""
_JOINING_LETTERS: Final = (
    *(range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xD7B0, 0xD800)),
    *(range(0x1F1E6, 0x1F200), range(0x1F3FB, 0x1F400), range(0xFF9E, 0xFFA0)),
)
"""parts of Korean syllables, flags, skin tones and Japanese voice marks"""


class OffsetFinder(Protocol):
    """Finds the characters of tokens."""

    def are_known(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for which texts `find` is likely to succeed, [texts] bool."""

    def find(self, texts: Sequence[str], ids: Sequence[NDArray[Any]]) -> list[Bounds | None]:
        """Return the offsets of the tokens of texts; None if the lengths of pieces do not tell."""


def offset_finder(
    spec: Mapping[str, Any],
    library: tokenizers.Tokenizer,
    table: PieceTable,
    unknown: int,
    *,
    is_local: bool,
) -> OffsetFinder | None:
    """Return how to find the offsets of a `tokenizer.json`; None if only the library knows them.

    Args:
        spec: the content of the file.
        library: its tokenizer.
        table: its pieces.
        unknown: id of the unknown token; -1 without one.
        is_local: whether text is normalized and split character by character.
    """
    if is_local:
        return WordOffsets(spec, library, table, unknown)
    return ByteOffsets(spec, library, table, unknown) if _spells_text(spec, table) else None


def has_local_words(spec: Mapping[str, Any], special: Collection[str]) -> bool:
    """Return whether a `tokenizer.json` normalizes and splits text character by character.

    `special` pieces never occur in text.
    """
    splits = [step["type"] for step in _list_steps(spec.get("pre_tokenizer"))]
    return (
        spec["model"]["type"] in ("WordPiece", "Unigram")
        and splits in _LOCAL_SPLITS
        and not any(map(_takes_neighbors, _list_added(spec, special)))
        and all(
            step["type"] in _LOCAL_NORMALIZERS
            or step == _SPACES_TO_ONE
            or (step["type"] == "Replace" and "String" in step["pattern"])
            for step in _list_steps(spec.get("normalizer"))
        )
    )


def _takes_neighbors(entry: Mapping[str, Any]) -> bool:
    """Return whether an added token is not found in the text one character at a time."""
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    return len(entry["content"]) != 1 or any(map(entry.get, flags))


def _list_added(spec: Mapping[str, Any], special: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the added tokens that texts may have."""
    return [entry for entry in spec["added_tokens"] if entry["content"] not in special]


def _spells_text(spec: Mapping[str, Any], table: PieceTable) -> bool:
    """Return whether the pieces of a text have no bytes in addition to those of the text.

    A single space at the start of the text is an exception.
    """
    model = spec["model"]
    steps = list(_list_steps(spec.get("pre_tokenizer")))
    has_marks = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    if len(steps) == 1 and _adds_space(steps[0]):
        special = [table.names[token] for token in np.flatnonzero(table.special).tolist()]
        adds_text = bool(_list_added(spec, special))
    else:
        adds_text = any(step["type"] not in _BYTE_SPLITS or _adds_space(step) for step in steps)
    return model["type"] in ("BPE", "Unigram") and not has_marks and not adds_text


def _adds_space(step: Mapping[str, Any]) -> bool:
    """Return whether a pre-tokenizer adds a space before a text that starts with another one."""
    scheme = step.get("prepend_scheme")
    return scheme != "never" if scheme else bool(step.get("add_prefix_space"))


def _list_steps(step: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer in order."""
    if step and step["type"] == "Sequence":
        for part in step.get("normalizers") or step.get("pretokenizers") or ():
            yield from _list_steps(part)
    elif step:
        yield step


class ByteOffsets:
    """Finds offsets by the bytes of the pieces, for tokenizers whose pieces spell the text."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        library: tokenizers.Tokenizer,
        table: PieceTable,
        unknown: int,
    ) -> None:
        steps = list(_list_steps(spec.get("normalizer")))
        changing = [step for step in steps if step not in _WRITES_MARKS]
        self._normalizer = library.normalizer if changing else None
        self._keeps_ascii = all(step["type"] in _COMPOSITIONS for step in changing)
        self._always_adds = _WRITES_MARKS[1] in steps
        self._adds_space = any(map(_adds_space, _list_steps(spec.get("pre_tokenizer"))))
        self._table = table
        self._unknown = unknown

    def are_known(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.ones(len(texts), np.bool_)

    def find(self, texts: Sequence[str], ids: Sequence[NDArray[Any]]) -> list[Bounds | None]:
        return list(map(self._find, texts, ids))

    def _find(self, text: str, ids: NDArray[Any]) -> Bounds | None:
        """Return the offsets; None if text was changed or lost, which the sum of bytes shows."""
        added = self._always_adds or (self._adds_space and not text.startswith(" "))
        spaces = " " * (added and text != "")
        if self._normalizer and not (self._keeps_ascii and text.isascii()):
            normal = self._normalizer.normalize_str(text).replace(_SPACE_MARK, " ")
            if normal != (spaces if self._always_adds else "") + text:
                return None
        return None if (ids == self._unknown).any() else self._table.bounds(text, ids, len(spaces))


class WordOffsets:
    """Finds offsets by words, for tokenizers that lose white space.

    Each character of a text becomes a number of characters of pieces: the library is asked once.
    Pieces at the edge of a word must then be where the words of the text are.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        library: tokenizers.Tokenizer,
        table: PieceTable,
        unknown: int,
    ) -> None:
        model = spec["model"]
        self._library = library
        self._unknown = unknown
        self._roles = np.full(0x110000, _UNSEEN, np.uint8)

        # what the library does with combining marks and with characters that it drops
        steps = list(_list_steps(spec.get("normalizer")))
        changing = [step for step in steps if step["type"] in _LOCAL_NORMALIZERS]
        self._changes_marks = any(map(_changes_marks, changing))
        replaced = [
            step["pattern"].get("String", "") for step in steps if step["type"] == "Replace"
        ]
        self._patterns = [pattern for pattern in replaced if len(pattern) > 1]
        self._drops_exactly = all(step["type"] == "BertNormalizer" for step in changing)

        special = {table.names[token] for token in np.flatnonzero(table.special).tolist()}
        self._added = {entry["content"] for entry in _list_added(spec, special)}

        # a mark of `▁a` or `a_` belongs to the first or last character of its word
        (word,) = self._split("a")
        self._start_mark, self._end_mark = word.split("a")
        prefix = model.get("continuing_subword_prefix") or ""
        self._lengths = np.zeros(len(table.names), np.int64)
        self._at_edge = np.zeros(len(table.names), np.bool_)
        for token, name in enumerate(table.names):
            is_inside = bool(prefix) and name.startswith(prefix)
            self._lengths[token] = len(name) - len(prefix) * is_inside
            has_marks = name.startswith(self._start_mark) and name.endswith(self._end_mark)
            self._at_edge[token] = name in self._added or (not is_inside and has_marks)

        # an unknown token is a word, the unknown letters in a row of Unigram, or a letter of BPE
        self._lengths[table.special] = 0
        self._letters: set[str] | None = None
        if model["type"] == "Unigram":
            self._letters = {name for name in table.names if len(name) == 1}
        if unknown >= 0:
            self._lengths[unknown] = model["type"] == "BPE"
            self._at_edge[unknown] = not self._start_mark and not self._end_mark

    def are_known(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        unsafe = np.flatnonzero(self._find_roles("\n".join(texts)) == _UNSAFE)
        ends = np.cumsum([len(text) + 1 for text in texts])
        known = np.ones(len(texts), np.bool_)
        known[ends.searchsorted(unsafe, side="right")] = False
        return known

    def find(self, texts: Sequence[str], ids: Sequence[NDArray[Any]]) -> list[Bounds | None]:
        if not texts:
            return []
        roles = self._find_roles("\n".join(texts))
        sizes = np.array(list(map(len, texts)))
        begins = np.cumsum(sizes + 1) - sizes - 1
        roles[begins[1:] - 1] = _BARE
        bounds = self._find(roles, np.concatenate(ids))

        # the text of each token
        counts = list(map(len, ids))
        begins = np.repeat(begins, counts)
        sizes = np.repeat(sizes, counts)
        if bounds is not None:
            starts = bounds[0] - begins
            ends = bounds[1] - begins
            if (starts >= 0).all() and (ends <= sizes).all():
                cuts = np.cumsum(counts)[:-1]
                return list(zip(np.split(starts, cuts), np.split(ends, cuts), strict=True))

        # search for the text that does not fit
        if len(texts) == 1:
            return [None]
        middle = len(texts) // 2
        return self.find(texts[:middle], ids[:middle]) + self.find(texts[middle:], ids[middle:])

    def _find(self, roles: NDArray[np.uint8], ids: NDArray[Any]) -> Bounds | None:
        """Return the offsets of tokens, given the roles of characters; None if words do not fit."""
        # leave out characters that the library drops
        characters = None
        if not roles.all():
            characters = np.flatnonzero(roles)
            roles = roles.take(characters)
        counts = roles & _COUNT
        if not len(ids) or not counts.any():
            empty = np.empty(0, np.int64)
            return (empty, empty) if len(ids) == counts.any() == 0 else None

        # the first and last characters of words
        before = roles[:-1]
        is_joined = np.zeros(len(roles) + 1, np.bool_)
        is_joined[1:-1] = roles[1:] & (before & _LETTER | (before & _BLANK) << 1)
        is_kept = counts.astype(np.bool_)
        first = np.flatnonzero(is_kept & ~is_joined[:-1])
        unknown = ids == self._unknown
        gaps = np.empty(0, np.int64)
        if self._letters is not None and unknown.any():
            gaps = _sum_runs(counts, (roles & _UNKNOWN).astype(np.bool_), is_joined)
        if self._start_mark:
            counts[first[roles[first] & _BARE == 0]] += 1
        if self._end_mark:
            counts[is_kept & ~is_joined[1:]] += 1

        # the character of each character of the pieces, and the lengths of the words
        origins = np.repeat(np.arange(len(counts)), counts)
        word_starts = origins.searchsorted(first)
        widths = self._lengths.take(ids)
        at_edge = self._at_edge.take(ids)
        if self._letters is None and not self._end_mark and unknown.any():
            gaps = _find_gaps(widths, np.flatnonzero(at_edge), word_starts, len(origins))
        if len(gaps):
            if len(gaps) != np.count_nonzero(unknown):
                return None
            widths[unknown] = gaps

        # pieces at the edges of words, and the words, have the same edges
        ends = np.cumsum(widths)
        starts = ends - widths
        edges = starts[at_edge]
        if self._end_mark:
            edges = np.concatenate(([0], ends[at_edge][:-1]))
        if widths.min() < 1 or ends[-1] != len(origins) or not np.array_equal(edges, word_starts):
            return None
        if characters is not None:
            origins = characters.take(origins)
        return origins.take(starts), origins.take(ends - 1) + 1

    def _find_roles(self, text: str) -> NDArray[np.uint8]:
        """Return the role of each character."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        roles = self._roles.take(codes)
        if (unseen := roles == _UNSEEN).any():
            for code in set(codes[unseen].tolist()):
                self._roles[code] = self._find_role(chr(code))
            roles = self._roles.take(codes)
        for pattern in self._patterns:
            start = text.find(pattern)
            while start >= 0:
                roles[start] = _UNSAFE
                start = text.find(pattern, start + 1)
        return roles

    def _find_role(self, character: str) -> int:
        """Return what a character becomes between letters."""
        words = [
            word.removeprefix(self._start_mark).removesuffix(self._end_mark)
            for word in self._split(f"a{character}a")
        ]
        sizes = list(map(len, words))
        joined = "".join(words)
        count = len(joined) - 2
        if sizes == [2]:
            return 0 if self._drops_exactly else _UNSAFE
        if (
            joined[:1] + joined[-1:] != "aa"
            or count >= _COUNT
            or character == self._start_mark
            or (self._changes_marks and any(map(unicodedata.combining, joined)))
            or (not self._drops_exactly and _joins_others(character))
        ):
            return _UNSAFE

        # which of them have a piece
        letters = joined[1:-1]
        unknown = 0
        if self._letters is not None and not self._letters.issuperset(letters):
            if not self._letters.isdisjoint(letters):
                return _UNSAFE
            unknown = _UNKNOWN

        if character in self._added:
            return count | _BARE
        after_blank = _AFTER_BLANK if len(self._split(f" {character}")) == 1 else 0
        roles = {
            (2 + count,): count | _LETTER | after_blank | unknown,
            (1, count, 1): count | after_blank | unknown,
            (1, 1 + count): count | _BLANK,
            (1, 1): _BARE,
        }
        return roles.get(tuple(sizes), _UNSAFE)

    def _split(self, text: str) -> list[str]:
        """Return the normalized words of a text."""
        normalizer = self._library.normalizer
        words = list[str]()
        for part in re.split(f"({pieces_pattern(self._added)})", text):
            if part in self._added:
                words.append(part)
                continue
            normal = normalizer.normalize_str(part) if normalizer else part
            words += [word for word, _ in self._library.pre_tokenizer.pre_tokenize_str(normal)]
        return words


def _sum_runs(
    counts: NDArray[Any], is_unknown: NDArray[np.bool_], is_joined: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the length of each run of unknown characters within a word, [runs].

    `is_joined` says whether a character continues the word of the one before, [characters + 1].
    """
    opens_run = is_unknown.copy()
    opens_run[1:] &= ~(is_unknown[:-1] & is_joined[1:-1])
    runs = np.cumsum(opens_run)[is_unknown] - 1
    return np.bincount(runs, counts[is_unknown]).astype(np.int64)


def _find_gaps(
    widths: NDArray[np.int64], firsts: NDArray[np.int64], starts: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Return the part of each word that its tokens do not cover, [words with such a part].

    Args:
        widths: lengths of the tokens; 0 if unknown.
        firsts: first token of each word.
        starts: start of each word.
        size: length of all words.
    """
    if len(firsts) != len(starts) or firsts[0] != 0:
        return np.zeros(0, np.int64)
    gaps = np.diff(starts, append=size) - np.add.reduceat(widths, firsts)
    present: NDArray[np.int64] = gaps[gaps != 0]
    return present


def _changes_marks(step: Mapping[str, Any]) -> bool:
    """Return whether a normalizer composes, orders or removes combining marks."""
    if step["type"] != "BertNormalizer":
        return bool(step["type"] != "Lowercase")
    strips = step.get("strip_accents")
    return bool(step["lowercase"] if strips is None else strips)


def _joins_others(character: str) -> bool:
    """Return whether a character may combine with those around it in a normal form."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") or any(
        ord(character) in letters for letters in _JOINING_LETTERS
    )
