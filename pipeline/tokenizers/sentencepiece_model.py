"""Published SentencePiece models (arXiv 1808.06226), unigram or BPE, encoded by the `sentencepiece` library itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import sentencepiece
import tokenizers
from numpy.typing import NDArray
from sentencepiece import sentencepiece_model_pb2

from pipeline.errors import IntegrityError
from pipeline.repair import repair_of
from pipeline.tokenizers import Encoding
from pipeline.tokenizers._pieces import PieceTable
from pipeline.tokenizers._published import Published, check_distinct
from pipeline.tokenizers._sentencepiece import KINDS, bytes_of, converted, decisive_facts

__all__ = ["SentencepieceModel"]

_FAIRSEQ: Final = ("<s>", "<pad>", "</s>", "<unk>")


class SentencepieceModel:
    """A `.model` file as its publisher uses it, with the ids of the model that was trained with it.

    Text is normalised as the model says, which may lose white space and rare characters; characters without a piece
    become the unknown token where the model has no bytes.

    Example:
        Llama's model makes "the mask" the pieces `▁the` `▁mask`, and "</s>" the pieces `</` `s` `>`.
    """

    VERSION: ClassVar[int] = 1
    FILE: ClassVar[str] = "spiece.model"
    LOSS: ClassVar[str] = "what its normaliser changes, and characters without a piece"

    def __init__(self, proto: bytes, facts: Published) -> None:
        self._facts = sentencepiece_model_pb2.ModelProto.FromString(proto)
        self._spec = self._facts.normalizer_spec
        decisive = decisive_facts("sentencepiece_model", self._facts)
        self._pieces, self._order = _layout(self._facts, facts)
        names = [piece.piece for piece in self._pieces]
        self._table = PieceTable([bytes_of(piece) for piece in self._pieces], names)
        self.vocabulary = facts.vocabulary(self._table, decisive)
        # A piece with a role stands for no text: a user-defined one would be found in text.
        for piece, token in zip(self._facts.pieces, self._order.tolist(), strict=True):
            if piece.type == KINDS.USER_DEFINED and self.vocabulary.special[token]:
                piece.type = KINDS.CONTROL
        self._model = sentencepiece.SentencePieceProcessor(model_proto=self._facts.SerializeToString())
        self._widths = np.array([_characters(piece) for piece in self._facts.pieces], dtype=np.int64)

    @staticmethod
    def names(path: Path, *, fairseq: bool = False) -> list[str]:
        """Return the pieces of a model in the order of their ids."""
        pieces, _ = _layout(_read(path), Published(fairseq=fairseq))
        check_distinct([piece.piece for piece in pieces], str(path))
        return [piece.piece for piece in pieces]

    @staticmethod
    def roles(path: Path) -> dict[str, str]:
        """Return the special pieces that a model's file names itself."""
        facts = _read(path)
        ids = {role: getattr(facts.trainer_spec, f"{role}_id") for role in ("pad", "bos", "eos", "unk")}
        pieces = {role: facts.pieces[token] for role, token in ids.items() if 0 <= token < len(facts.pieces)}
        return {role: piece.piece for role, piece in pieces.items() if bytes_of(piece) is None}

    @classmethod
    def load(cls, folder: Path) -> SentencepieceModel:
        """Read `spiece.model` and its facts."""
        return cls(_read(folder / cls.FILE).SerializeToString(), Published.load(folder))

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        rows = self._model.encode(list(texts), return_type="numpy", num_threads=1)
        return [
            Encoding(self._order[row].astype(self.vocabulary.id_dtype), self._starts(text, row))
            for text, row in zip(texts, rows, strict=True)
        ]

    def _starts(self, text: str, row: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the character of the text at which each token begins.

        Pieces join to the normalised text, whose characters the library maps to those of the text. An unknown token
        stands for a run of characters that it does not name; then the library's slower answer is read.
        """
        widths = self._widths[row]
        ends = np.cumsum(widths)
        normal, places = self._model.normalize(text, with_offsets=True)
        if (widths < 0).any() or (ends[-1] if len(ends) else 0) != len(normal):
            return self._slow_starts(text)
        # The later bytes of a character have no width; they begin where its first byte does.
        return np.asarray(places, dtype=np.int64)[ends - np.maximum(widths, 1)]

    def _slow_starts(self, text: str) -> NDArray[np.int64]:
        begins = [piece.begin for piece in self._model.encode(text, return_type="proto").pieces]
        lead = (np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80
        characters = np.append(np.cumsum(lead, dtype=np.int64) - 1, len(text))
        return characters[np.array(begins, dtype=np.int64)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; the space that the model puts in front of a text is kept."""
        return self._table.decode(ids)

    def piece(self, token: int) -> str:
        """Return the piece as SentencePiece writes it (`▁the` for " the")."""
        return self._table.names[token]

    def converted(self) -> tokenizers.Tokenizer:
        """Return the model for the `tokenizers` library, without special tokens."""
        return converted(self._facts, self._pieces)


def _read(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        sentencepiece.SentencePieceProcessor(model_proto=raw)
        return sentencepiece_model_pb2.ModelProto.FromString(raw)
    except (OSError, RuntimeError, ValueError) as error:
        raise IntegrityError(f"{path}: not a SentencePiece model ({error}); {repair_of(path)}") from error


def _layout(model: Any, facts: Published) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the pieces in the order of their ids, those after the model's included, and the id of each model piece."""
    own = list(model.pieces)
    if not facts.fairseq:
        return [*own, *map(_control, facts.behind)], np.arange(len(own))
    ids = {piece: number for number, piece in enumerate(_FAIRSEQ)}
    heads = {piece.piece: piece for piece in own[:3]}
    if sorted(heads) != ["</s>", "<s>", "<unk>"]:
        raise IntegrityError(
            f"tokenizer: expected a model that begins with <unk> <s> </s>, as fairseq's do, got {sorted(heads)}; give "
            "the path of the `.model` file to keep the ids of its own"
        )
    front = [heads.get(name) or _control(name) for name in _FAIRSEQ]
    order = [ids[piece.piece] for piece in own[:3]] + list(range(4, len(own) + 1))
    return [*front, *own[3:], *map(_control, facts.behind)], np.array(order)


def _control(name: str) -> Any:
    return KINDS(piece=name, score=0.0, type=KINDS.CONTROL)


def _characters(piece: Any) -> int:
    """Return how many characters of normalised text a piece stands for, -1 where that differs from place to place."""
    if piece.type == KINDS.BYTE:
        return int(not 0x80 <= int(piece.piece[3:5], 16) < 0xC0)
    return -1 if bytes_of(piece) is None else len(piece.piece)
