"""Shared by all tokenizers: the interface, special pieces, token bytes, offsets, long texts."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.text.normal_form import is_unspaced
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS, Corpus, Vocabulary

SPECIAL_PIECES: Final = {name: f"<{name}>" for name in SPECIALS} | {"bos": "<s>", "eos": "</s>"}

ENCODING_CUT: Final = 1 << 16
"""most characters in a call of a library: bounds its memory and time, which grows faster than
linearly"""
TRAINING_CUT: Final = 1 << 10
"""most characters in a training text: a megabyte without a space would be one word, which every
merge scans"""
TRAINING_DOCUMENT: Final = 1 << 20
"""most characters of a document in training, so that no document dominates"""


def spare_pieces(spares: int | Sequence[str]) -> list[str]:
    """Return the names of the spare pieces, given their names or their number."""
    return (
        [f"<reserved_{number}>" for number in range(spares)]
        if isinstance(spares, int)
        else list(spares)
    )


def sentinel_pieces(sentinels: int) -> list[str]:
    """Return the names of the sentinels, in order of use."""
    return [f"<extra_{number}>" for number in range(sentinels)]


def special_pieces(
    spares: int | Sequence[str], sentinels: int = SENTINELS, *, modes: bool = True
) -> list[str]:
    """Return the special pieces in order of their ids: roles, sentinels, modes, spares."""
    return [
        *(SPECIAL_PIECES[name] for name in SPECIALS),
        *sentinel_pieces(sentinels),
        *(f"<{mode}>" for mode in MODES if modes),
        *spare_pieces(spares),
    ]


def expected_vocabulary(size: int, reserved: Sequence[str]) -> Vocabulary:
    """Return a placeholder vocabulary before training: special ids and dummy pieces.

    `reserved` are the `special_pieces` of the tokenizer.
    """
    reserved = list(reserved)
    ordinary = size - len(reserved)
    table = PieceTable([None] * len(reserved) + [b" x"] * ordinary, reserved + [""] * ordinary)
    return replace(table.vocabulary("foreseen"), corpus=Corpus(np.ones(size, np.uint64)))


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's character for each byte: the byte if printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + index): byte for index, byte in enumerate(others)
    }


def fingerprint(content: object) -> str:
    """Return the SHA-256 (hex) of `content`, which determines the ids of a tokenizer, as JSON."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def split_text(text: str, limit: int) -> list[str]:
    """Split a text into slices of at most `limit` characters.

    A slice ends before white space if its last half has any. No piece of a trained tokenizer
    crosses this point, so the tokens stay the same.
    """
    slices = []
    start = 0
    while len(text) - start > limit:
        end = max(text.rfind(space, start + limit // 2, start + limit) for space in " \n\t")
        while end > start and text[end - 1].isspace():
            end -= 1
        if end <= start:
            end = start + limit
        slices.append(text[start:end])
        start = end

    slices.append(text[start:])
    return slices


def training_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts for training: the start of each document, in short slices."""
    for text in texts:
        yield from split_text(text[:TRAINING_DOCUMENT], TRAINING_CUT)


WordMarks: TypeAlias = Literal["start", "end", "each", "none"]
"""How pieces mark words: white space (or a prefix) before a word, white space (or a suffix) after
it, no mark because each piece is a word, or no mark at all."""


Bounds: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""`starts` and `ends` of an `Encoding`."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of a text, with character offsets; several tokens may share a character."""

    ids: NDArray[Any]
    """token ids, [T] uint16 or uint32"""
    starts: NDArray[np.int64]
    """[T] character at which each token starts"""
    ends: NDArray[np.int64]
    """[T] end of the last character that each token overlaps; a token of bytes may end inside the
    character"""


class UnknownReason(Enum):
    """Reason why text becomes an unknown token, in the words of messages and reports."""

    LONG_WORD = "words too long for the tokenizer"
    LETTERS = "letters that the vocabulary lacks"
    WORDS = "words that the vocabulary lacks"


@dataclass(frozen=True, slots=True)
class UnknownParts:
    """The parts of a text that are unknown to a tokenizer."""

    tokens: int = 0
    """number of unknown tokens; 0 for tokenizers that drop unknown text"""
    characters: int = 0
    """number of characters that the unknown tokens replace, or that are dropped"""
    parts: Sequence[str] = ()
    """all unknown parts of the text, with repetitions"""


class PieceTable:
    """The bytes of each token, to compute offsets, texts and masks without the library.

    Args:
        pieces: bytes of each id, None for special ids.
        names: the piece of each id as text.
        marks: how pieces mark words.
    """

    def __init__(
        self, pieces: Iterable[bytes | None], names: Sequence[str], marks: WordMarks = "start"
    ) -> None:
        pieces = list(pieces)
        self.names = list(names)
        self._marks = marks
        self.bytes = [
            piece if piece is not None else name.encode()
            for piece, name in zip(pieces, names, strict=True)
        ]
        self.special = np.array([piece is None for piece in pieces])
        # a special id has no bytes, so `encodings` detects it if text becomes one
        self.lengths = np.array([len(piece or b"") for piece in pieces], dtype=np.int32)

    def word_starts(self) -> NDArray[np.bool_]:
        """Return the mask of pieces that start a word in any context, [size] bool."""
        if self._marks == "each":
            return ~self.special

        # if spaces mark ends, a space at the start of a piece ends the previous word
        silent = b" " if self._marks == "end" else b""
        opens = (
            np.array([_opens_word(piece.lstrip(silent)) for piece in self.bytes], dtype=np.bool_)
            & ~self.special
        )

        # without marks, word starts are known only if most pieces open words, without spaces
        unknown = self._marks == "none" and 2 * opens.sum() < len(opens) - self.special.sum()
        return np.zeros_like(opens) if unknown else opens

    def word_ends(self) -> NDArray[np.bool_]:
        """Return the mask of pieces after which a word starts, [size] bool.

        If spaces mark starts, a piece such as `▁` may come before the other pieces of its word.
        """
        ends = np.zeros(len(self.bytes), np.bool_)
        if self._marks in ("each", "none"):
            return ends
        for token in np.flatnonzero(~self.special).tolist():
            last = self.bytes[token].decode("utf-8", errors="ignore")[-1:]
            is_mark = last.isspace() and (last != " " or self._marks == "end")
            ends[token] = is_mark and self.bytes[token].endswith(last.encode())
        return ends

    def byte_pieces(self) -> NDArray[np.bool_]:
        """Return the mask of pieces that are a single byte of a rare character, [size] bool.

        These are pieces such as `<0x41>`, and single bytes beyond ASCII in byte-level BPE.
        """
        single: NDArray[np.bool_] = np.array(
            [len(piece) == 1 for piece in self.bytes], dtype=np.bool_
        )
        single &= ~self.special
        for token in np.flatnonzero(single).tolist():
            (byte,) = self.bytes[token]
            single[token] = byte >= 0x80 or self.names[token] == f"<0x{byte:02X}>"
        return single

    def vocabulary(self, fingerprint_hex: str) -> Vocabulary:
        """Return the vocabulary with this fingerprint."""
        ids = {name: index for index, name in enumerate(self.names) if self.special[index]}
        return Vocabulary(
            size=len(self.names),
            specials={name: ids[SPECIAL_PIECES[name]] for name in SPECIALS},
            sentinels=tuple(ids[name] for name in sentinel_pieces(SENTINELS) if name in ids),
            modes={mode: ids[f"<{mode}>"] for mode in MODES if f"<{mode}>" in ids},
            special=self.special.copy(),
            word_start=self.word_starts(),
            word_end=self.word_ends(),
            byte_piece=self.byte_pieces(),
            fingerprint=fingerprint_hex,
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids."""
        return b"".join([self.bytes[int(token)] for token in ids]).decode("utf-8", errors="replace")

    def encodings(self, texts: Sequence[str], ids: Iterable[NDArray[Any]]) -> list[Encoding]:
        """Return the encodings of texts; offsets follow from the lengths of the pieces.

        Raises:
            IntegrityError: the pieces of a text have more or fewer bytes than the text.
        """
        encodings = []

        for row, (text, tokens) in enumerate(zip(texts, ids, strict=True)):
            bounds = self.bounds(text, tokens)
            if bounds is None:
                actual = int(self.lengths.take(tokens).sum())
                raise IntegrityError(
                    f"the tokenizer lost or added text: text {row} of a batch has "
                    f"{len(text.encode())} bytes, but its tokens have {actual}; the text starts "
                    f"with {text[:60]!r}"
                )
            encodings.append(Encoding(tokens, *bounds))

        return encodings

    def bounds(self, text: str, ids: NDArray[Any]) -> Bounds | None:
        """Return the offsets of tokens; None if the pieces have more or fewer bytes."""
        widths = self.lengths.take(ids)
        ends = np.cumsum(widths, dtype=np.int64)
        size = len(text if text.isascii() else text.encode())
        if (ends[-1] if len(ends) else 0) != size:
            return None

        # offsets in bytes, then in characters
        starts = ends - widths
        if not text.isascii():
            characters = characters_of(text)
            starts = characters[starts]
            ends = characters[ends - 1] + 1
        return starts, ends


class Tokenizer(ABC):
    """The interface of tokenizers, with methods that a table of their pieces implements.

    No text encodes to a special id other than the unknown token. If `LOSS` is empty,
    `decode(encode(text)) == text`.
    """

    VERSION: ClassVar[int] = 1
    """raised when the same text gives other ids"""
    FILE: ClassVar[str]
    """name of the model file"""
    LOSS: ClassVar[str] = ""
    """how decoded text can differ from the original; empty if it never does"""
    MIN_PIECES: ClassVar[tuple[int, str]] = (1, "a piece")
    """least number of pieces in addition to special pieces, and a description of these pieces"""
    vocabulary: Vocabulary
    _table: PieceTable

    @classmethod
    def min_pieces(cls, options: object) -> tuple[int, str]:
        """Return how many pieces these options need in addition to special pieces."""
        return cls.MIN_PIECES

    @classmethod
    def check_size(cls, options: Any) -> None:
        """Raise ConfigurationError if `size` is too small for special and other needed pieces."""
        reserved = options.special_pieces()
        more, description = cls.min_pieces(options)
        if options.size < len(reserved) + more:
            raise ConfigurationError(
                f"{cls.__module__.rpartition('.')[2]}: size {options.size} is too small: "
                f"{options.describe_reserved()} and {description} need {len(reserved) + more}; "
                "raise size, or lower the `quoted` keys in train_tokenizer.options"
            )

    @property
    def loss(self) -> str:
        """Return how decoded text can differ, given the options of the training; see `LOSS`."""
        return self.LOSS

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Read `FILE`; raise IntegrityError if it is missing or damaged."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the tokens of each text."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of all ids of a text, like the tokenizer's library.

        The space that some tokenizers prepend to a text is removed. Special ids become their pieces
        (`<mask>`), and broken UTF-8 becomes U+FFFD.
        """
        return self._table.decode(ids)

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the text of ids inside a text, leading space included: `▁mask` is " mask"."""
        return self._table.decode(ids)

    def piece(self, token: int) -> str:
        """Return the piece as the model file writes it: `Ġthe`, `▁the`, `##ing`."""
        return self._table.names[token]

    @cached_property
    def unknown_id(self) -> int:
        """Return the id of the unknown token; -1 without one."""
        return self.vocabulary.specials.get("unk", -1)

    def unknown_parts(self, text: str, encoding: Encoding) -> UnknownParts:
        """Return the unknown tokens of a text, and the text that they replace."""
        unknown = np.flatnonzero(encoding.ids == self.unknown_id)
        if not len(unknown):
            return UnknownParts()
        starts = encoding.starts[unknown]
        ends = encoding.ends[unknown]
        # tokens may share a character: count it once
        begins = np.maximum(starts, np.concatenate(([0], np.maximum.accumulate(ends)[:-1])))
        parts = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return UnknownParts(len(unknown), int(np.maximum(ends - begins, 0).sum()), parts)

    def explain_unknown(self, text: str) -> tuple[UnknownReason, tuple[str, ...]]:
        """Return why a part of a text is unknown, and the letters or words that cause it."""
        return UnknownReason.LETTERS, tuple(dict.fromkeys(text.strip()))

    @abstractmethod
    def to_tokenizers(self) -> tokenizers.Tokenizer:
        """Convert the model to the `tokenizers` library, without special tokens, for an export."""


def characters_of(text: str) -> NDArray[np.int64]:
    """Return the character of each UTF-8 byte of a text, [bytes]."""
    lead = (np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80
    return np.cumsum(lead, dtype=np.int64) - 1


def _opens_word(piece: bytes) -> bool:
    """Return whether a piece starts with white space or a character of a script without spaces.

    If it has only the first bytes of a character, most letters with these bytes decide.
    """
    text = piece.decode("utf-8", errors="ignore")
    if text and piece.startswith(text[0].encode()):
        return text[0].isspace() or is_unspaced(text[0])
    letters = _letters_from(piece)
    return 2 * sum(map(is_unspaced, letters)) > len(letters)


@lru_cache
def _letters_from(start: bytes) -> list[str]:
    """Return about 64 letters, evenly spaced, whose UTF-8 starts with these bytes."""
    lengths = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}
    missing = next(
        (length for length, leads in lengths.items() if start and start[0] in leads), 0
    ) - len(start)
    if missing <= 0:
        return []
    bits = 6 * missing
    code = start[0] & (0x3F >> len(start) + missing - 1)
    for byte in start[1:]:
        code = code << 6 | byte & 0x3F
    characters = map(chr, range(code << bits, min(code + 1 << bits, 0x110000), 1 << bits - 6))
    return [
        letter for letter in characters if letter.isalpha() and letter.encode().startswith(start)
    ]


class TrainableTokenizer(Tokenizer):
    """A tokenizer that learns pieces from texts, and has `Options`; other ones are published."""

    SAMPLE_BYTES: ClassVar[int]
    """default size of the training sample, in bytes of UTF-8"""

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], options: Any, folder: Path) -> Tokenizer:
        """Train on texts and write `FILE`; equal texts in equal order give the same fingerprint."""
