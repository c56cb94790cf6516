"""The base of models trained by SentencePiece (arXiv 1808.06226), with lossless settings."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

import numpy as np
import sentencepiece
import tokenizers
from pydantic import Field
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import read_bytes
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    ENCODING_CUT,
    SPECIAL_PIECES,
    TRAINING_CUT,
    Encoding,
    PieceTable,
    TrainableTokenizer,
    characters_of,
    fingerprint,
    split_text,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import TrainingOptions
from clozeline.repair import rebuild_hint

PIECE_TYPES: Final = sentencepiece_model_pb2.ModelProto.SentencePiece
SPACE: Final = "\u2581"
"""mark of a space; if this character occurs in a text, it is encoded as its three bytes"""
_TOO_SMALL_MESSAGE: Final = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
_TOO_LARGE_MESSAGE: Final = re.compile(
    r"vocabulary size too high.*<= (\d+)", re.IGNORECASE | re.DOTALL
)


class TrainedSentencepiece(TrainableTokenizer):
    """A model in `spiece.model`, without normalization and dummy prefix; `bytes` as fallback."""

    NAME: ClassVar[str]
    """name of the algorithm"""
    MODEL: ClassVar[str]
    """name of the algorithm in the library"""
    FILE = "spiece.model"
    SAMPLE_BYTES = 10**9

    @config_class
    class Options(TrainingOptions):
        character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
        """share of the characters in the sample that are covered by pieces, 0.9 to 1; rarer
        characters are encoded as bytes"""
        bytes: bool = True
        """add 256 ids for the bytes of rare characters; false: consecutive characters without a
        piece become one unknown token"""

    def __init__(self, model: sentencepiece.SentencePieceProcessor) -> None:
        self._model = model
        self._proto = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto())
        names = [piece.piece for piece in self._proto.pieces]
        self._table = PieceTable(map(piece_bytes, self._proto.pieces), names)
        self.vocabulary = self._table.vocabulary(
            fingerprint(_decisive_parts(self.NAME, self._proto))
        )
        self._has_bytes: bool = self._proto.trainer_spec.byte_fallback
        escaped = (
            [names.index(f"<0x{byte:02X}>") for byte in SPACE.encode()]
            if self._has_bytes
            else [self.unknown_id]
        )

        self._literal = np.array(escaped, dtype=self.vocabulary.id_dtype)

    @classmethod
    def min_pieces(cls, options: Any) -> tuple[int, str]:
        """Return the number of bytes, if the options have them, plus the newline and one piece."""
        return (
            (258, "256 `bytes`, the newline and a piece")
            if options.bytes
            else (2, "the newline and a piece")
        )

    @property
    def loss(self) -> str:
        """Return what decoding changes if the vocabulary has no bytes."""
        unknown = "characters without a piece, and U+2581, become the unknown token"
        return "" if self._has_bytes else unknown

    @classmethod
    def train(cls, texts: Iterable[str], options: Any, folder: Path) -> Self:
        """Train the pieces and write `spiece.model`.

        If the text is too short for `size`, the vocabulary is smaller.

        Raises:
            ConfigurationError: `size` is too small, or the texts are empty.
        """
        cls.check_size(options)
        sample = [text.replace(SPACE, " ") for text in training_texts(texts)]

        try:
            proto = _train(sample, cls.MODEL, options, options.size)
        except RuntimeError as error:
            # the trainer's message has the largest vocabulary that the sample supports
            if too_small := _TOO_SMALL_MESSAGE.search(str(error)):
                raise ConfigurationError(
                    f"{cls.NAME}: size {options.size} is too small for the characters of this "
                    f"text, which need {too_small[1]}; raise size to that or more, or lower "
                    f"character_coverage from {options.character_coverage}"
                ) from error
            if not (too_large := _TOO_LARGE_MESSAGE.search(str(error))):
                raise ConfigurationError(
                    f"{cls.NAME}: SentencePiece cannot train on this text: {error}"
                ) from error
            proto = _train(sample, cls.MODEL, options, int(too_large[1]))

        folder.mkdir(parents=True, exist_ok=True)
        (folder / cls.FILE).write_bytes(proto)
        return cls(sentencepiece.SentencePieceProcessor(model_proto=proto))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `spiece.model`; raise IntegrityError if it is missing or damaged."""
        path = folder / cls.FILE
        try:
            return cls(sentencepiece.SentencePieceProcessor(model_proto=read_bytes(path)))
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise IntegrityError(
                f"{path}: not a {cls.NAME} model written by train_tokenizer ({error}); "
                f"{rebuild_hint(path)}"
            ) from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        if not self._has_bytes:
            return [self._encode_without_bytes(text) for text in texts]

        # encode all slices in one call, then join the slices of each text
        slices = [list(_slices(text)) for text in texts]
        flat = [part for row in slices for part in row if part != SPACE]
        pieces = iter(self._model.encode(flat, return_type="numpy", num_threads=1))
        rows = []
        for row in slices:
            parts = [self._literal if part == SPACE else next(pieces) for part in row]
            rows.append(np.concatenate(parts).astype(self.vocabulary.id_dtype))

        return self._table.encodings(texts, rows)

    def _encode_without_bytes(self, text: str) -> Encoding:
        """Return the tokens of a text, with the library's offsets, which cover unknown tokens."""
        # id, first byte and end of each token
        tokens = list[tuple[int, int, int]]()
        start = 0

        for part in _slices(text):
            if part == SPACE:
                tokens.append((self.unknown_id, start, start + len(SPACE.encode())))
            else:
                pieces = self._model.encode(part, return_type="proto", num_threads=1).pieces
                tokens += [(piece.id, start + piece.begin, start + piece.end) for piece in pieces]
            start += len(part.encode())

        ids, starts, ends = np.array(tokens, np.int64).reshape(-1, 3).T
        characters = characters_of(text)
        return Encoding(
            ids.astype(self.vocabulary.id_dtype), characters[starts], characters[ends - 1] + 1
        )

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        """Convert the model; ids may differ in ties, which `export_tokenizer` reports."""
        pieces = self._proto.pieces
        unknown = SPECIAL_PIECES["unk"]
        ids = {piece.piece: number for number, piece in enumerate(pieces)}
        algorithm: object

        if self.MODEL == "bpe":
            algorithm = models.BPE(
                ids,
                _merges(pieces),
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=self._has_bytes,
            )
        else:
            algorithm = models.Unigram(
                [(piece.piece, piece.score) for piece in pieces], ids[unknown], self._has_bytes
            )

        model = tokenizers.Tokenizer(algorithm)
        model.normalizer = normalizers.Replace(" ", SPACE)
        model.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
        model.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        return model


def piece_bytes(piece: Any) -> bytes | None:
    """Return the bytes of a piece; None for pieces without text."""
    if piece.type in (PIECE_TYPES.CONTROL, PIECE_TYPES.UNKNOWN):
        return None
    if piece.type == PIECE_TYPES.BYTE:
        return bytes([int(piece.piece[3:5], 16)])
    text: str = piece.piece
    return text.replace(SPACE, " ").encode()


def _decisive_parts(name: str, proto: Any) -> dict[str, Any]:
    """Return the parts that determine the ids of a text: pieces, normalizer and flags."""
    normalizer = proto.normalizer_spec
    return {
        "name": name,
        "pieces": [[piece.piece, piece.score, piece.type] for piece in proto.pieces],
        "normalizer": [
            normalizer.precompiled_charsmap.hex(),
            normalizer.add_dummy_prefix,
            normalizer.remove_extra_whitespaces,
            normalizer.escape_whitespaces,
        ],
        "flags": [proto.trainer_spec.byte_fallback, proto.trainer_spec.treat_whitespace_as_suffix],
    }


def _merges(pieces: Sequence[Any]) -> list[tuple[str, str]]:
    """Return a merge for each split of a piece into two pieces, ordered by the piece's score."""
    scores = {piece.piece: piece.score for piece in pieces if piece.type == PIECE_TYPES.NORMAL}
    return [
        (piece[:end], piece[end:])
        for piece in sorted(scores, key=scores.__getitem__, reverse=True)
        for end in range(1, len(piece))
        if piece[:end] in scores and piece[end:] in scores
    ]


def _slices(text: str) -> Iterator[str]:
    """Split a text for the library; each U+2581 is a separate slice."""
    for number, part in enumerate(text.split(SPACE)):
        if number:
            yield SPACE
        yield from split_text(part, ENCODING_CUT)


def _train(sample: list[str], model_type: str, options: Any, size: int) -> bytes:
    """Train a model with the library, and return its file."""
    pad, *controls = options.special_pieces()
    begin, end, unknown = controls[3:6]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sample),
        model_writer=model,
        model_type=model_type,
        vocab_size=size,
        # lossless settings
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        byte_fallback=options.bytes,
        character_coverage=options.character_coverage,
        max_sentence_length=4 * TRAINING_CUT,
        num_threads=getattr(options, "num_threads", 1),
        user_defined_symbols=["\n"],
        control_symbols=controls[:3] + controls[6:],
        # ids of the special pieces, in the order of `special_pieces`
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
