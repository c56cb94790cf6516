"""Base of the tokenizers with a list of pieces in a JSON file: characters, words, textbook BPE."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from clozeline.errors import IntegrityError
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, TableTokenizer, special_pieces
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import check_room, special_piece_roles
from clozeline.repair import repair_of


class JsonVocabulary(TableTokenizer):
    """A vocabulary in `pieces.json`: number of spare ids, pieces and data of the algorithm."""

    NAME: ClassVar[str]
    FILE: ClassVar[str] = "pieces.json"
    FEWEST: ClassVar[int] = 1
    """minimum number of trained pieces"""
    _encoder: ChunkEncoder

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        reserved = special_pieces(facts["reserved"])
        names = [*reserved, *facts["pieces"]]
        texts = [self.text_of(piece).encode() for piece in facts["pieces"]]
        self._table = PieceTable([*[None] * len(reserved), *texts], names)
        self.vocabulary = special_piece_roles(facts["reserved"]).vocabulary(self._table, {"name": self.NAME, **facts})
        self._ids = {piece: len(reserved) + number for number, piece in enumerate(facts["pieces"])}
        self._unknown = self.vocabulary.specials["unk"]

    @staticmethod
    def text_of(piece: str) -> str:
        """Return the text of a piece."""
        return piece

    @classmethod
    def check_size(cls, options: Any) -> None:
        """Raise ConfigurationError if `size` is below the minimum of the algorithm."""
        check_room(cls.NAME, options, cls.FEWEST)

    @classmethod
    def write(cls, folder: Path, facts: Mapping[str, Any]) -> Self:
        """Write `pieces.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / cls.FILE).write_text(json.dumps(facts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
        return cls(facts)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `pieces.json`; IntegrityError if it is missing or damaged."""
        path = folder / cls.FILE
        try:
            return cls(parse_json(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"{path}: not a vocabulary written by train_tokenizer ({error!r}); {repair_of(path)}"
            ) from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self._encoder.encode(texts)
