"""Unigram language model (arXiv 1804.10959) by SentencePiece, with lossless settings."""

from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class Unigram(TrainedSentencepiece):
    r"""Unigram model of the `sentencepiece` library, without normalization and dummy prefix.

    Rare characters become bytes. The pieces depend on the number of threads in training, so this
    number is an option.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<`
        `mask` `>`.
    """

    NAME = "unigram"
    MODEL = "unigram"

    @config_class
    class Options(TrainedSentencepiece.Options):
        num_threads: Annotated[int, Field(ge=1, le=128)] = 4
        """threads in training, 1 to 128; another number may give other pieces"""
