"""Characters as tokens; rare ones are encoded as their UTF-8 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import tokenizers
from pydantic import Field
from tokenizers import decoders, models

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder, Tokens
from clozeline.pipeline.tokenize.tokenizers._json_vocabulary import JsonVocabulary
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import TrainingOptions

_CHUNK: Final = re.compile(r"\S+|\s+")
_BYTES: Final = [f"<0x{byte:02X}>" for byte in range(256)]


class Character(JsonVocabulary):
    """The 256 bytes and the most frequent characters; lossless.

    Example:
        "a 中" becomes `a` ` ` `中`, or `a` ` ` `<0xE4>` `<0xB8>` `<0xAD>` if the training text has no 中.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**9
    NAME: ClassVar[str] = "character"
    FEWEST: ClassVar[int] = 257

    @config_class
    class Options(TrainingOptions):
        size: Annotated[int, Field(ge=1, le=2**31)] = 8192
        """number of ids, including specials and bytes; a small text may have fewer characters"""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        first = len(special_pieces(facts["reserved"]))
        characters = self._table.bytes[first + len(_BYTES) :]
        pieces = [*[None] * first, *(bytes([byte]) for byte in range(256)), *characters]
        self._table = PieceTable(pieces, self._table.names)
        self.vocabulary = replace(
            self.vocabulary, word_start=self._table.word_starts(), ends_in_space=self._table.ends_in_space()
        )
        self._first = first
        self._encoder = ChunkEncoder(_CHUNK, self._tokens, self.vocabulary.id_dtype)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Character:
        """Count the characters and write `pieces.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        counts = count_words(chain.from_iterable(training_texts(texts)))
        room = options.size - len(special_pieces(options.reserved)) - len(_BYTES)
        characters = sorted(counts, key=counts.__getitem__, reverse=True)[:room]
        return cls.write(folder, {"reserved": options.reserved, "pieces": [*_BYTES, *characters]})

    def _tokens(self, chunk: str) -> Tokens:
        ids: list[int] = []
        starts: list[int] = []
        for index, character in enumerate(chunk):
            token = self._ids.get(character)
            tokens = [self._first + byte for byte in character.encode()] if token is None else [token]
            ids += tokens
            starts += [index] * len(tokens)
        return ids, starts

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        ids = {name: token for token, name in enumerate(self._table.names)}
        model = tokenizers.Tokenizer(models.BPE(ids, [], byte_fallback=True))
        model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        return model
