"""Characters as tokens; rare characters become their UTF-8 bytes, or the unknown token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    SPECIAL_PIECES,
    TrainableTokenizer,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    TrainingOptions,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_BYTE_PIECES: Final = [f"<0x{byte:02X}>" for byte in range(256)]


class Character(TokenizerJson, TrainableTokenizer):
    """The 256 bytes and the most frequent characters; lossless unless `bytes` is false.

    Letters of proteins or DNA need no bytes. `size: 33` with `sentinels: 0`, `modes: false`,
    `reserved: 1` and `bytes: false` gives 7 special ids, a spare id and 25 letters, as many as in
    ESM (Rives et al., 2021).

    Example:
        "a 中" becomes `a` ` ` `中`, or without 中 in the training text `a` ` ` `<0xE4>` `<0xB8>`
        `<0xAD>`.
    """

    SAMPLE_BYTES = 10**9
    LOSS = ""

    @config_class
    class Options(TrainingOptions):
        size: Annotated[int, Field(ge=1, le=2**31)] = 8192
        """vocabulary size, including special tokens and bytes; smaller if the text has fewer
        characters"""
        bytes: bool = True
        """add 256 ids for the bytes of rare characters; false: characters without an id become the
        unknown token"""

    @classmethod
    def min_pieces(cls, options: Any) -> tuple[int, str]:
        """Return the number of bytes, if the options have them, plus one character."""
        return (257, "256 `bytes` and a character") if options.bytes else (1, "a character")

    @property
    def loss(self) -> str:
        """Return what decoding changes if the vocabulary has no bytes."""
        return (
            ""
            if self._spec["model"]["byte_fallback"]
            else "characters that are missing in the training text become the unknown token"
        )

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Character:
        """Count the characters and write `tokenizer.json`.

        Raises:
            ConfigurationError: `size` is too small.
        """
        cls.check_size(options)
        counts = Counter(chain.from_iterable(training_texts(texts)))
        front = [*options.special_pieces(), *(_BYTE_PIECES if options.bytes else [])]
        characters = [character for character, _ in counts.most_common(options.size - len(front))]
        ids = {name: token for token, name in enumerate([*front, *characters])}
        unknown = None if options.bytes else SPECIAL_PIECES["unk"]
        model = Tokenizer(models.BPE(ids, [], unk_token=unknown, byte_fallback=options.bytes))
        model.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
        model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        return cls.write(folder, model, special_piece_roles(options))
