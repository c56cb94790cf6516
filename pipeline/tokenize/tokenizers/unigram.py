"""Unigram language model (arXiv 1804.10959) by SentencePiece, with the settings that lose no text."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class Unigram(TrainedSentencepiece):
    r"""Unigram pieces by the `sentencepiece` library: no normalisation, no dummy prefix, bytes for rare characters.

    The trainer's result depends on its number of threads, so that number is an option and part of the configuration.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<` `mask` `>`.
    """

    VERSION: ClassVar[int] = 1
    SAMPLE_BYTES: ClassVar[int] = 10**9
    NAME: ClassVar[str] = "unigram"
    MODEL: ClassVar[str] = "unigram"

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Options of the training."""

        size: Annotated[int, Field(ge=1, le=2**31)] = 32000
        """number of ids, specials and bytes included; a small text supports fewer"""
        reserved: Annotated[int, Field(ge=0, le=4096)] = 16
        """spare special ids, 0 to 4096"""
        character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
        """share of the sample's characters that get a piece of their own, 0.9 to 1; the rest are spelt in bytes"""
        num_threads: Annotated[int, Field(ge=1, le=128)] = 4
        """threads of the trainer, 1 to 128; another number may give other pieces"""
