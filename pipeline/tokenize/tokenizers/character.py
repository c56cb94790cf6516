"""Characters as tokens; rare ones are encoded as their UTF-8 bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import TrainingOptions, special_piece_roles
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_BYTES: Final = [f"<0x{byte:02X}>" for byte in range(256)]


class Character(TokenizerJson):
    """The 256 bytes and the most frequent characters; lossless.

    Example:
        "a 中" becomes `a` ` ` `中`, or `a` ` ` `<0xE4>` `<0xB8>` `<0xAD>` if the training text has no 中.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**9
    ROOM: ClassVar[tuple[int, str]] = (257, "257 more")
    LOSS: ClassVar[str] = ""

    @config_class
    class Options(TrainingOptions):
        size: Annotated[int, Field(ge=1, le=2**31)] = 8192
        """number of ids, including specials and bytes; a small text may have fewer characters"""

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Character:
        """Count the characters and write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        counts = Counter(chain.from_iterable(training_texts(texts)))
        front = [*special_pieces(options.reserved), *_BYTES]
        characters = [character for character, _ in counts.most_common(options.size - len(front))]
        ids = {name: token for token, name in enumerate([*front, *characters])}
        model = Tokenizer(models.BPE(ids, [], byte_fallback=True))
        model.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
        model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        return cls.write(folder, model, special_piece_roles(options.reserved))
