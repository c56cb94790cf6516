"""Unigram language model (arXiv 1804.10959) by SentencePiece, with lossless settings."""

from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class Unigram(TrainedSentencepiece):
    r"""Unigram pieces of the `sentencepiece` library: no normalization, no dummy prefix, bytes for rare characters.

    The pieces depend on the number of threads of the trainer, so it is an option and part of the
    configuration.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<`
        `mask` `>`.
    """

    NAME: ClassVar[str] = "unigram"
    MODEL: ClassVar[str] = "unigram"

    @config_class
    class Options(TrainedSentencepiece.Options):
        num_threads: Annotated[int, Field(ge=1, le=128)] = 4
        """threads of the trainer, 1 to 128; changing it may change the pieces"""
