"""Properties of a tokenizer that objectives use: size, special ids, and bitmaps over the ids."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json, read_text
from clozeline.repair import rebuild_hint
from clozeline.seeding import hash64

SPECIALS: Final = ("pad", "cls", "sep", "mask", "bos", "eos", "unk")
SENTINELS: Final = 128
"""most sentinels of a tokenizer, and their default number; enough for every part of UL2"""
MODES: Final = ("R", "S", "X")

_BITMAPS: Final = ("special", "word_start", "word_end", "byte_piece")
_OPTIONAL: Final = ("word_end", "byte_piece")
"""bitmaps that the file omits if no bit is set"""


class SentinelError(ConfigurationError):
    """Rows need more sentinels than the tokenizer has."""


ADD_SPECIALS: Final = (
    "`tokenizer.add: true` adds missing tokens to a published tokenizer, `train_tokenizer.options` "
    "has `sentinels` and `modes`"
)
"""Remedy if an objective needs special tokens that the tokenizer lacks."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """How often each id of a vocabulary occurs in the training documents of a corpus."""

    counts: NDArray[np.uint64]
    note: Callable[[str, str], None] | None = None
    """called with the digest and the name of what is read"""

    def read(self, name: str) -> NDArray[Any]:
        """Return the `counts` [size], or which ids are `occurring` [size]."""
        if self.note is not None:
            self.note(self.digest(name), name)
        return self._select(name)

    def digest(self, name: str) -> str:
        """Return a digest of what `read` returns."""
        return f"{hash64(self._select(name).tobytes()):016x}"

    def _select(self, name: str) -> NDArray[Any]:
        return self.counts > 0 if name == "occurring" else self.counts


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Immutable properties of the ids of a tokenizer.

    `folder`, and properties of a corpus (`corpus`, `languages`), are not part of its identity.
    """

    size: int
    """number of ids, special tokens included"""
    specials: dict[str, int]
    """id of each special token by name (`pad cls sep mask bos eos unk`), without absent ones"""
    sentinels: tuple[int, ...]
    """ids of the sentinels, in order of use"""
    modes: dict[str, int]
    """ids of the mode tokens `R`, `S`, `X`"""
    special: NDArray[np.bool_] = field(repr=False)
    """[size], ids without text; objectives never select them"""
    word_start: NDArray[np.bool_] = field(repr=False)
    """[size], ids whose piece opens a word in any context; see `opens_word` for tokens of a row"""
    fingerprint: str
    """SHA-256 (hex) over the pieces, their types and the normalizer"""
    folder: Path | None = field(default=None, repr=False)
    """folder of the tokenizer; None if it was not loaded from one"""
    corpus: Corpus | None = field(default=None, repr=False)
    """occurrences of each id in the corpus; None: unknown"""
    languages: tuple[str, ...] = field(default=(), repr=False)
    """language of each code in the rows of the corpus; empty: unknown"""
    word_end: NDArray[np.bool_] | None = field(default=None, repr=False)
    """[size], ids after whose piece a word opens: `low</w>`, a newline; None: no such ids"""
    byte_piece: NDArray[np.bool_] | None = field(default=None, repr=False)
    """[size], ids of a single byte of a rare character; None: no such ids"""

    def __post_init__(self) -> None:
        for name in _BITMAPS:
            bitmap = getattr(self, name)
            if bitmap is None:
                continue
            if bitmap.shape != (self.size,) or bitmap.dtype != np.bool_:
                raise IntegrityError(
                    f"vocabulary: {name} must be bool [{self.size}], got {bitmap.dtype} "
                    f"{bitmap.shape}"
                )
            bitmap.setflags(write=False)

    def id_of(self, name: str, wanted_by: str) -> int:
        """Return the id of a special token.

        Raises:
            ConfigurationError: the tokenizer lacks it; the message names what needs it.
        """
        if name not in self.specials:
            have = ", ".join(sorted(self.specials)) or "none"
            raise ConfigurationError(
                f"{wanted_by} needs the special token '{name}', the tokenizer has: {have}; "
                f"{ADD_SPECIALS}"
            )
        return self.specials[name]

    def opens_word(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which tokens open a word, bool [tokens]; `ids` are in the order of the text.

        A word opens at a piece with the mark of a word start (`Ġthe`, `▁the`, no `##`), after a
        piece with the mark of a word end (`low</w>`) and after a newline. In scripts without
        spaces, each piece that starts with a complete character opens a word. The caller adds the
        first token of a row, and the token after a special token.

        Example: `the` `Ċ` `cat` `s` gives no, yes, yes, no; `low` `er</w>` `cat</w>` gives no, no,
        yes.
        """
        opens: NDArray[np.bool_] = self.word_start.take(ids)
        if self.word_end is not None and len(ids):
            opens[1:] |= self.word_end.take(ids[:-1]) & ~self.special.take(ids[1:])
        return opens

    @property
    def ends_word(self) -> NDArray[np.bool_]:
        """Return `word_end` as [size] bool; all false if it is None."""
        return np.zeros(self.size, np.bool_) if self.word_end is None else self.word_end

    def require_words(self, wanted_by: str) -> None:
        """Raise ConfigurationError, naming what needs words, if no piece marks a word boundary."""
        if not (self.word_start | self.ends_word).any():
            raise ConfigurationError(
                f"{wanted_by} needs words, but this tokenizer does not mark where words start: its "
                "pieces have no white space, prefix or suffix; choose an objective over tokens, or "
                "another tokenizer"
            )

    @cached_property
    def reserved(self) -> NDArray[np.bool_]:
        """Return the special ids that no text encodes to, [size] bool.

        The unknown token is content, unless its id has another role. Sentinels, modes, separators
        and tokens around rows are reserved; rows of samples do not contain them.
        """
        reserved = self.special.copy()
        unknown = self.specials.get("unk")
        if unknown is not None and list(self.specials.values()).count(unknown) == 1:
            reserved[unknown] = False
        reserved[list(self.sentinels)] = True
        reserved[list(self.modes.values())] = True
        return reserved

    @cached_property
    def replaceable(self) -> NDArray[np.int64]:
        """Return the ids that random replacement draws from, ascending.

        These are the ids that occur in the corpus and are not special. Without known counts, they
        are all ids that are neither special nor a single byte of a rare character.
        """
        text = ~self.special
        if self.corpus is not None and (known := text & self.corpus.read("occurring")).any():
            return np.flatnonzero(known)
        characters = text if self.byte_piece is None else text & ~self.byte_piece
        return np.flatnonzero(characters if characters.any() else text)

    @property
    def id_dtype(self) -> Any:
        """Return the numpy type of stored ids: uint16 up to 65,536 ids, else uint32."""
        return np.uint16 if self.size <= 65536 else np.uint32

    def save(self, path: Path) -> None:
        """Write a JSON file; bitmaps are packed to bits in base64."""
        fields = asdict(self)
        del fields["folder"], fields["corpus"], fields["languages"]
        for name in _OPTIONAL:
            bitmap = getattr(self, name)
            if bitmap is None or not bitmap.any():
                del fields[name]
        for name in fields.keys() & {*_BITMAPS}:
            fields[name] = base64.b64encode(np.packbits(fields[name]).tobytes()).decode()
        path.write_text(
            json.dumps(add_checksum(fields), indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )

    @staticmethod
    def load(path: Path) -> Vocabulary:
        """Read a file of `save`; raise IntegrityError if it is missing or damaged."""
        try:
            fields = verify_checksum(parse_json(read_text(path)), path)
            for name in fields.keys() & {*_BITMAPS}:
                packed = np.frombuffer(base64.b64decode(fields[name]), dtype=np.uint8)
                fields[name] = np.unpackbits(packed, count=fields["size"]).astype(np.bool_)
            fields["sentinels"] = tuple(fields["sentinels"])
            return Vocabulary(**fields, folder=path.parent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"{path}: this is not a vocabulary of train_tokenizer ({error}); "
                f"{rebuild_hint(path)}"
            ) from error
