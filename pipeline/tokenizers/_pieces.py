"""Parts that all tokenizers share: reserved pieces, pieces as bytes, offsets from byte lengths, cutting long texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IntegrityError
from pipeline.text.normal_form import match_words
from pipeline.tokenizers import Encoding
from pipeline.vocabulary import MODES, SENTINELS, SPECIALS, Vocabulary

__all__ = [
    "TRAINING_CUT",
    "PieceTable",
    "byte_alphabet",
    "cut",
    "fingerprint",
    "foreseen_vocabulary",
    "reserved_pieces",
    "training_texts",
]

SPECIAL_PIECES: Final = {name: f"<{name}>" for name in SPECIALS} | {"bos": "<s>", "eos": "</s>"}

ENCODING_CUT: Final = 1 << 16
"""Longest text given to a library at once, in characters: bounds its memory, and costs grow faster than the text."""
TRAINING_CUT: Final = 1 << 10
"""The same for training: a megabyte without a space would be one word, walked through for every merge."""
TRAINING_DOCUMENT: Final = 1 << 20
"""Characters that one document gives to training: no single text decides the pieces."""


def reserved_pieces(spares: int) -> list[str]:
    """Return the pieces without text, in the order of their ids from 0: specials, sentinels, modes, spares."""
    return [
        *(SPECIAL_PIECES[name] for name in SPECIALS),
        *(f"<extra_{number}>" for number in range(SENTINELS)),
        *(f"<{mode}>" for mode in MODES),
        *(f"<reserved_{number}>" for number in range(spares)),
    ]


def foreseen_vocabulary(size: int, spares: int) -> Vocabulary:
    """Return a vocabulary like that of a tokenizer to be trained: its special ids, and pieces of no meaning."""
    reserved = reserved_pieces(spares)
    ordinary = size - len(reserved)
    table = PieceTable([None] * len(reserved) + [b" x"] * ordinary, reserved + [""] * ordinary)
    return replace(table.vocabulary("foreseen"), token_counts=np.ones(size, dtype=np.uint64))


def byte_alphabet() -> dict[str, int]:
    """Return the printable character of each byte: itself where it prints, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(rest)}


def fingerprint(facts: Any) -> str:
    """Return the SHA-256 (hex) of everything that decides how a tokenizer encodes, as canonical JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def cut(text: str, limit: int) -> list[str]:
    """Return slices of at most `limit` characters that join to the text.

    A cut falls before white space where the last half of a slice has any: there no piece of ours crosses it, so the
    tokens are those of the whole text.
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
    """Yield the texts as training sees them: bounded per document, cut to short pieces."""
    for text in texts:
        yield from cut(text[:TRAINING_DOCUMENT], TRAINING_CUT)


class PieceTable:
    """The bytes of each id: gives offsets, texts and bitmaps without calling the library.

    Args:
        pieces: bytes of each id, None for ids without text.
        names: the piece of each id as text.
    """

    def __init__(self, pieces: Sequence[bytes | None], names: Sequence[str]) -> None:
        self.names = list(names)
        self.bytes = [piece if piece is not None else name.encode() for piece, name in zip(pieces, names, strict=True)]
        self.special = np.array([piece is None for piece in pieces])
        # A special id counts as no bytes: were it ever produced, the lengths below would not add up.
        self.lengths = np.array([len(piece or b"") for piece in pieces], dtype=np.int32)

    def word_starts(self) -> NDArray[np.bool_]:
        """Return which pieces open a word, [size] bool."""
        opens = [not special and _opens_word(piece) for special, piece in zip(self.special, self.bytes, strict=True)]
        return np.array(opens, dtype=np.bool_)

    def vocabulary(self, print_: str) -> Vocabulary:
        """Return the facts that objectives may know; `print_` is the fingerprint."""
        ids = {name: index for index, name in enumerate(self.names) if self.special[index]}
        return Vocabulary(
            size=len(self.names),
            specials={name: ids[SPECIAL_PIECES[name]] for name in SPECIALS},
            sentinels=tuple(ids[f"<extra_{number}>"] for number in range(SENTINELS)),
            modes={mode: ids[f"<{mode}>"] for mode in MODES},
            special=self.special.copy(),
            word_start=self.word_starts(),
            fingerprint=print_,
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Return the bytes of the ids as text."""
        return b"".join([self.bytes[int(token)] for token in ids]).decode("utf-8", errors="replace")

    def encodings(self, texts: Sequence[str], ids: Sequence[NDArray[Any]]) -> list[Encoding]:
        """Compute the token offsets of a batch of texts from the lengths of the pieces.

        Raises:
            IntegrityError: the ids of a text hold more or fewer bytes than the text.
        """
        if not texts:
            return []
        raw = [text.encode() for text in texts]
        counts = np.array([len(tokens) for tokens in ids])
        widths = self.lengths[np.concatenate(ids)]
        ends = np.cumsum(widths, dtype=np.int64)
        token_ends = np.cumsum(counts)
        byte_ends = np.cumsum([len(text) for text in raw])
        reached = np.where(token_ends > 0, ends[token_ends - 1], 0) if len(ends) else np.zeros_like(token_ends)
        if not np.array_equal(reached, byte_ends):
            row = int(np.flatnonzero(reached != byte_ends)[0])
            raise IntegrityError(
                f"the tokenizer lost or added text: text {row} of a batch has {len(raw[row])} bytes, its tokens stand "
                f"for {int(np.diff(reached, prepend=0)[row])}; the text begins {texts[row][:60]!r}"
            )
        starts = np.subtract(ends, widths, out=ends)  # in place: a batch may be one long text of a token a byte
        characters = sum(len(text) for text in texts)
        if characters != byte_ends[-1]:
            lead = (np.frombuffer(b"".join(raw), dtype=np.uint8) & 0xC0) != 0x80
            starts = (np.cumsum(lead, dtype=np.int64) - 1)[starts]
        text_starts = np.cumsum([0] + [len(text) for text in texts[:-1]])
        starts -= np.repeat(text_starts, counts)
        return [Encoding(*pair) for pair in zip(ids, np.split(starts, token_ends[:-1]), strict=True)]


def _opens_word(piece: bytes) -> bool:
    """Return whether a piece opens a word: white space does, and each character of an unspaced script."""
    text = piece.decode("utf-8", errors="ignore")
    if not text or not piece.startswith(text[0].encode()):
        return False
    return text[0].isspace() or (not text[0].isascii() and len(match_words(f"{text[0]}a")) == 2)
