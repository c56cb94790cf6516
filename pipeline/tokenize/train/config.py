"""Options of `train_tokenizer`: algorithm, vocabulary size and amount of text."""

from dataclasses import field
from typing import Annotated, Any, cast

from pydantic import Field

from clozeline.configuration.config import Positive, config_class
from clozeline.configuration.described_keys import Common
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import TOKENIZERS, TokenizerComponent


@config_class
class TrainTokenizerConfig:
    """The tokenizer to train: algorithm, vocabulary size, amount of text."""

    name: Annotated[str, IsName(), Common()] = "byte_bpe"
    """algorithm: the name of a file in pipeline/tokenize/tokenizers/"""
    size: Annotated[int, Field(ge=1, le=2**31), Common()] = 32000
    """vocabulary size, including 154 special ids: 7 special tokens, 128 sentinels, 3 modes and 16
    reserved ids, so 32000 leaves 31,846 for text; `options: {sentinels: 0, modes: false, reserved:
    0}` leaves all but 7. If the text is too short, the vocabulary is smaller and a warning says
    so"""
    sample_bytes: Positive | None = None
    """approximate bytes of text to train on; default: 100 MB for bpe and wordpiece, 1 GB for all
    others (unigram needs about 30 bytes of memory per byte). For byte_bpe, more text changes little
    (docs/tokenizers.md)"""
    alpha: Annotated[float, Field(ge=0, le=1)] = 1
    """exponent of language sampling, from 0 (equal shares) to 1 (natural shares); XLM-R: 0.3; a
    text is repeated at most 4 times"""
    options: dict[str, Any] = field(default_factory=dict)
    """further options of the algorithm"""

    def __post_init__(self) -> None:
        try:
            chosen = self.algorithm()
            chosen.type.check_size(chosen.options)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    def algorithm(self) -> TokenizerComponent:
        """Return the algorithm with its validated options."""
        # imports numpy and tokenizers
        from clozeline.pipeline.tokenize.tokenizers import (
            is_trainable,
            list_trainable,
        )

        if "size" in self.options:
            raise ConfigurationError("give `size` next to `options`, not inside `options`")
        if self.name in TOKENIZERS.available() and not is_trainable(self.name):
            raise ConfigurationError(
                f"{self.name} cannot be trained, because it reads published files: use `tokenizer: "
                "{path: FILE}` instead of train_tokenizer, or name one of "
                f"{', '.join(list_trainable())}"
            )

        chosen = TOKENIZERS.resolve({**self.options, "name": self.name, "size": self.size})
        return cast(TokenizerComponent, chosen)
