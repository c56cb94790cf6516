"""Published SentencePiece models (arXiv 1808.06226), unigram or BPE, encoded by the `sentencepiece` library itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import sentencepiece
import tokenizers
from numpy.typing import NDArray
from sentencepiece import sentencepiece_model_pb2
from tokenizers import normalizers

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import Marks, PieceTable, TableTokenizer
from clozeline.pipeline.tokenize.tokenizers._preprocessing import DIGIT_COMMAS, normalizers_of, prepare, sources
from clozeline.pipeline.tokenize.tokenizers._published import Published, check_distinct
from clozeline.pipeline.tokenize.tokenizers._sentencepiece import KINDS, SPACE, bytes_of, decisive_facts, to_tokenizers
from clozeline.repair import repair_of

_NEVER: Final = 1000.0
_FAIRSEQ: Final = ("<s>", "<pad>", "</s>", "<unk>")
_CAMEMBERT: Final = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED")
_PEGASUS: Final = ("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)))
_FRONTS: Final = {
    "fairseq": (_FAIRSEQ, ("<unk>", "<s>", "</s>")),
    "camembert": (_CAMEMBERT, ("<unk>",)),
    "pegasus": (_PEGASUS, ("<pad>", "</s>")),
}
"""First pieces of a publisher's ids, and the first pieces of its models, which are among them; the rest follows."""


class SentencepieceModel(TableTokenizer):
    """A `.model` file with the ids and the preprocessing of its publisher.

    The model's normalization may lose white space and rare characters; characters without a piece become the unknown
    token if the model has no byte pieces.

    Example:
        Llama's model splits "the mask" into `▁the` `▁mask`, and "</s>" into `</` `s` `>`.
    """

    FILE: ClassVar[str] = "spiece.model"
    LOSS: ClassVar[str] = "what its normalizer changes, and characters without a piece"

    def __init__(self, proto: bytes, facts: Published) -> None:
        self._facts = sentencepiece_model_pb2.ModelProto.FromString(proto)
        self._pieces, self._order = _layout(self._facts, facts)
        self._pieces_of = np.zeros(len(self._pieces), dtype=np.int64)
        self._pieces_of[self._order] = np.arange(len(self._order))
        marks: Marks = "end" if self._facts.trainer_spec.treat_whitespace_as_suffix else "start"
        self._table = PieceTable(map(bytes_of, self._pieces), [piece.piece for piece in self._pieces], marks)
        self.vocabulary = facts.vocabulary(self._table, decisive_facts("sentencepiece_model", self._facts))
        # a piece with a role must never occur in text: turn user-defined pieces into control pieces
        for piece, token in zip(self._facts.pieces, self._order.tolist(), strict=True):
            if piece.type == KINDS.USER_DEFINED and self.vocabulary.special[token]:
                piece.type = KINDS.CONTROL
        self._model = sentencepiece.SentencePieceProcessor(model_proto=self._facts.SerializeToString())
        self._widths = np.array([_characters(piece) for piece in self._facts.pieces], dtype=np.int64)
        self._steps = facts.steps
        # the parts of each piece that `digit_commas` splits, and the width of each part
        self._cuts: dict[int, tuple[list[int], list[int]]] = {}
        for token, piece in enumerate(self._facts.pieces if DIGIT_COMMAS in facts.steps else ()):
            if _is_cut(piece):
                parts = self._model.encode(piece.piece[:-1].replace(SPACE, ""), return_type=str)
                if not piece.piece.startswith(SPACE):  # the model prepends a space, which the piece does not have
                    parts = [part for part in (parts[0].removeprefix(SPACE), *parts[1:]) if part]
                parts.append(",")
                self._cuts[token] = [self._model.piece_to_id(part) for part in parts], [len(part) for part in parts]

    @staticmethod
    def names(path: Path, *, fairseq: bool = False, layout: str = "") -> list[str]:
        """Return the pieces of a model in order of their ids."""
        pieces, _ = _layout(_read(path), Published(fairseq=fairseq, layout=layout))
        check_distinct([piece.piece for piece in pieces], str(path))
        return [piece.piece for piece in pieces]

    @staticmethod
    def roles(path: Path) -> dict[str, str]:
        """Return the special pieces named in the model file."""
        facts = _read(path)
        ids = {role: getattr(facts.trainer_spec, f"{role}_id") for role in ("pad", "bos", "eos", "unk")}
        pieces = {role: facts.pieces[token] for role, token in ids.items() if 0 <= token < len(facts.pieces)}
        return {role: piece.piece for role, piece in pieces.items() if bytes_of(piece) is None}

    @classmethod
    def load(cls, folder: Path) -> SentencepieceModel:
        return cls(_read(folder / cls.FILE).SerializeToString(), Published.load(folder))

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        prepared = [prepare(text, self._steps) for text in texts] if self._steps else list(texts)
        rows = self._model.encode(prepared, return_type="numpy", num_threads=1)
        encodings = []
        for text, plain, row in zip(texts, prepared, rows, strict=True):
            pieces, _ = self._cut(row, self._widths[row]) if self._cuts else (row, None)
            ids = self._order.take(pieces).astype(self.vocabulary.id_dtype)
            sides = (partial(self._bounds, text, plain, row, side) for side in (0, 1))
            encodings.append(Encoding(ids, *sides))
        return encodings

    def _cut(self, row: NDArray[np.int32], widths: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the pieces and their widths after the step `digit_commas`."""
        # isolate each piece to split, then replace it
        positions = np.flatnonzero(np.isin(row, list(self._cuts)))
        bounds = np.stack((positions, positions + 1), axis=1).ravel()
        parts: list[Any] = np.split(row, bounds)
        sizes: list[Any] = np.split(widths, bounds)
        for number, token in enumerate(row[positions].tolist()):
            parts[2 * number + 1], sizes[2 * number + 1] = self._cuts[token]
        return np.concatenate(parts), np.concatenate(sizes)

    def _bounds(self, text: str, prepared: str, row: NDArray[np.int32], side: Literal[0, 1]) -> NDArray[np.int64]:
        """Return the first character of each token [T] (side 0), or the one after its last (side 1).

        The pieces concatenate to the normalized text, whose characters the library maps to those of the text.
        """
        widths = self._widths[row]
        normal, offsets = self._model.normalize(prepared, with_offsets=True)
        # an unknown token spans a run of characters: get its width from the piece as a string
        if (widths < 0).any():
            pieces = self._model.encode(prepared, return_type=str)
            widths = np.where(widths < 0, [len(piece) for piece in pieces], widths)
        if self._cuts:
            _, widths = self._cut(row, widths)
        ends = np.cumsum(widths)
        if (ends[-1] if len(ends) else 0) != len(normal):
            raise IntegrityError(
                f"{self.FILE}: the pieces of a text have {int(widths.sum())} characters, the normalized text "
                f"has {len(normal)}; it begins {text[:60]!r}"
            )
        # characters behind the normalized text; continuation bytes have width 0 and start with their character
        origins = np.asarray(offsets, dtype=np.int64)
        if self._steps and len(ends):
            origins = sources(text, self._steps)[origins[: ends[-1]]]
        return origins[ends - 1] + 1 if side else origins[ends - np.maximum(widths, 1)]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode with `sentencepiece` up to the first special id; the rest as pieces."""
        tokens = [int(token) for token in ids]
        special = self.vocabulary.special
        end = next((index for index, token in enumerate(tokens) if special[token]), len(tokens))
        text: str = self._model.decode(self._pieces_of[tokens[:end]].tolist()) if end else ""
        return text + self._table.decode(tokens[end:])

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        # to approximate `digit_commas`, a piece that it splits gets a score with which it is never chosen
        pieces = [
            KINDS(piece=piece.piece, score=piece.score - _NEVER, type=piece.type)
            if self._cuts and _is_cut(piece)
            else piece
            for piece in self._pieces
        ]
        model = to_tokenizers(self._facts, pieces)
        if self._steps:
            model.normalizer = normalizers.Sequence([*normalizers_of(self._steps), model.normalizer])
        return model


def _read(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        sentencepiece.SentencePieceProcessor(model_proto=raw)
        model = sentencepiece_model_pb2.ModelProto.FromString(raw)
    except (OSError, RuntimeError, ValueError) as error:
        raise IntegrityError(f"{path}: not a SentencePiece model ({error}); {repair_of(path)}") from error
    if not model.pieces:
        raise IntegrityError(f"{path}: not a SentencePiece model (it has no pieces); {repair_of(path)}")
    return model


def _layout(model: Any, facts: Published) -> tuple[list[Any], NDArray[np.int64]]:
    """Return all pieces in order of their ids, including appended ones, and the id of each piece of the model."""
    own = list(model.pieces)
    layout = "fairseq" if facts.fairseq else facts.layout
    if not layout:
        return [*own, *map(_control, facts.behind)], np.arange(len(own))
    names, first = _FRONTS[layout]
    heads = {piece.piece: piece for piece in own[: len(first)]}
    if sorted(heads) != sorted(first):
        raise IntegrityError(
            f"tokenizer: expected a model that begins with {' '.join(first)}, as those of {layout} do, got "
            f"{sorted(heads)}; give the path of the `.model` file to keep the ids of its own"
        )
    ids = {piece: number for number, piece in enumerate(names)}
    front = [heads.get(name) or _control(name) for name in names]
    rest = own[len(first) :]
    order = [*(ids[name] for name in heads), *range(len(names), len(names) + len(rest))]
    return [*front, *rest, *map(_control, facts.behind)], np.array(order)


def _control(name: str) -> Any:
    return KINDS(piece=name, score=0.0, type=KINDS.CONTROL)


def _characters(piece: Any) -> int:
    """Return the characters of normalized text of a piece; -1 if that depends on the text."""
    if piece.type == KINDS.BYTE:
        return int(not 0x80 <= int(piece.piece[3:5], 16) < 0xC0)
    return -1 if bytes_of(piece) is None else len(piece.piece)


def _is_cut(piece: Any) -> bool:
    """Return whether the step `digit_commas` splits a piece."""
    return bool(piece.type == KINDS.NORMAL and piece.piece.endswith(",") and piece.piece[-2:-1].isdigit())
