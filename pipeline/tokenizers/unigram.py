"""Unigram language model (arXiv 1804.10959) by SentencePiece, with the settings that lose no text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np
import sentencepiece
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from sentencepiece import sentencepiece_model_pb2

from pipeline.config import STRICT
from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.tokenizers import Encoding
from pipeline.tokenizers._pieces import (
    ENCODING_CUT,
    TRAINING_CUT,
    PieceTable,
    cut,
    fingerprint,
    reserved_pieces,
    training_texts,
)

__all__ = ["Unigram"]

_SPACE: Final = "\u2581"
"""SentencePiece writes a space so; the character itself, where a text has it, goes through its three bytes."""
_TOO_SMALL: Final = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
_TOO_LARGE: Final = re.compile(r"vocabulary size too high.*<= (\d+)", re.IGNORECASE | re.DOTALL)


class Unigram:
    r"""Unigram pieces by the `sentencepiece` library: no normalisation, no dummy prefix, bytes for rare characters.

    The trainer's result depends on its number of threads, so that number is an option and part of the configuration.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<` `mask` `>`.
    """

    VERSION: ClassVar[int] = 1
    SAMPLE_BYTES: ClassVar[int] = 10**9
    FILE: ClassVar[str] = "spiece.model"

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Options of the training."""

        size: Annotated[int, Field(ge=1, le=2**31)] = 32000
        """number of ids, specials and bytes included; a small text supports fewer"""
        reserved: Annotated[int, Field(ge=0, le=4096)] = 16
        """spare special ids, 0 to 4096"""
        character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
        """share of the sample's characters that get a piece of their own, 0.9 to 1; the rest are spelt in bytes"""
        num_threads: Annotated[int, Field(ge=1, le=128)] = 4
        """threads of the trainer, 1 to 128; another number may give other pieces"""

    def __init__(self, model: sentencepiece.SentencePieceProcessor) -> None:
        self._model = model
        facts = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto())
        kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
        names = [piece.piece for piece in facts.pieces]
        self._table = PieceTable([_bytes_of(piece, kinds) for piece in facts.pieces], names)
        normaliser = facts.normalizer_spec
        decisive = {
            "name": "unigram",
            "pieces": [[piece.piece, piece.score, piece.type] for piece in facts.pieces],
            "normaliser": [
                normaliser.precompiled_charsmap.hex(),
                normaliser.add_dummy_prefix,
                normaliser.remove_extra_whitespaces,
                normaliser.escape_whitespaces,
            ],
            "flags": [facts.trainer_spec.byte_fallback, facts.trainer_spec.treat_whitespace_as_suffix],
        }
        self.vocabulary = self._table.vocabulary(fingerprint(decisive))
        by_name = {name: index for index, name in enumerate(names)}
        escaped = [by_name[f"<0x{byte:02X}>"] for byte in _SPACE.encode()]
        self._literal = np.array(escaped, dtype=self.vocabulary.id_dtype)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Unigram:
        """Learn the pieces and write `spiece.model`; too little text for `size` gives a smaller vocabulary.

        Raises:
            ConfigurationError: `size` leaves no room beside reserved pieces and 256 bytes, or the texts are empty.
        """
        reserved = reserved_pieces(options.reserved)
        least = len(reserved) + 258  # 256 bytes, the newline, one piece of text
        if options.size < least:
            raise ConfigurationError(
                f"unigram: size {options.size} is too small: {len(reserved)} reserved pieces, 256 bytes, the newline "
                f"and a piece need {least}"
            )
        sample = [text.replace(_SPACE, " ") for text in training_texts(texts)]
        try:
            proto = _trained(sample, options, options.size)
        except RuntimeError as error:
            proto = _trained(sample, options, _possible_size(error, options))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / cls.FILE).write_bytes(proto)
        return cls(sentencepiece.SentencePieceProcessor(model_proto=proto))

    @classmethod
    def load(cls, folder: Path) -> Unigram:
        """Read `spiece.model`.

        Raises:
            IntegrityError: the file is missing or not one of ours.
        """
        path = folder / cls.FILE
        try:
            return cls(sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes()))
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise IntegrityError(f"{path}: not a unigram model written by train_tokenizer ({error})") from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        slices = [list(_slices(text)) for text in texts]
        flat = [piece for row in slices for piece in row if piece != _SPACE]
        found = iter(self._model.encode(flat, return_type="numpy", num_threads=1))
        return self._table.encodings(texts, [self._joined(row, found) for row in slices])

    def _joined(self, row: list[str], found: Iterator[NDArray[np.int32]]) -> NDArray[Any]:
        parts = [self._literal if piece == _SPACE else next(found) for piece in row]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return joined.astype(self.vocabulary.id_dtype)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""
        return self._table.decode(ids)

    def piece(self, token: int) -> str:
        """Return the piece as SentencePiece writes it (`▁the` for " the")."""
        return self._table.names[token]


def _slices(text: str) -> Iterator[str]:
    """Yield parts for the library; each U+2581 alone."""
    for number, part in enumerate(text.split(_SPACE)):
        if number:
            yield _SPACE
        yield from cut(part, ENCODING_CUT)


def _bytes_of(piece: Any, kinds: Any) -> bytes | None:
    if piece.type in (kinds.CONTROL, kinds.UNKNOWN):
        return None
    if piece.type == kinds.BYTE:
        return bytes([int(piece.piece[3:5], 16)])
    text: str = piece.piece
    return text.replace(_SPACE, " ").encode()


def _possible_size(error: RuntimeError, options: Unigram.Options) -> int:
    """Parse, from the trainer's message, the largest vocabulary that the sample supports."""
    if too_large := _TOO_LARGE.search(str(error)):
        return int(too_large[1])
    if too_small := _TOO_SMALL.search(str(error)):
        raise ConfigurationError(
            f"unigram: size {options.size} is too small for this text: its characters need {too_small[1]}; "
            f"give that size or more, or a character_coverage below {options.character_coverage}"
        ) from error
    raise ConfigurationError(f"unigram: the sample cannot be learnt from: {error}") from error


def _trained(sample: list[str], options: Unigram.Options, size: int) -> bytes:
    pad, *controls = reserved_pieces(options.reserved)
    begin, end, unknown = controls[3:6]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sample),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        byte_fallback=True,
        character_coverage=options.character_coverage,
        max_sentence_length=4 * TRAINING_CUT,
        num_threads=options.num_threads,
        user_defined_symbols=["\n"],
        control_symbols=controls[:3] + controls[6:],
        pad_id=0,
        pad_piece=pad,
        bos_id=4,
        bos_piece=begin,
        eos_id=5,
        eos_piece=end,
        unk_id=6,
        unk_piece=unknown,
        minloglevel=2,
    )
    return model.getvalue()
