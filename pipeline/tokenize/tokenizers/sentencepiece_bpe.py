"""Byte-pair encoding (arXiv 1508.07909) of characters by SentencePiece, with the settings that lose no text."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class SentencepieceBpe(TrainedSentencepiece):
    r"""BPE pieces by the `sentencepiece` library: no normalisation, no dummy prefix, bytes for rare characters.

    The pieces depend neither on the number of threads nor on the order of the texts.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<` `mask` `>`.
    """

    VERSION: ClassVar[int] = 1
    SAMPLE_BYTES: ClassVar[int] = 10**9
    NAME: ClassVar[str] = "sentencepiece_bpe"
    MODEL: ClassVar[str] = "bpe"

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Options of the training."""

        size: Annotated[int, Field(ge=1, le=2**31)] = 32000
        """number of ids, specials and bytes included; a small text supports fewer"""
        reserved: Annotated[int, Field(ge=0, le=4096)] = 16
        """spare special ids, 0 to 4096"""
        character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
        """share of the sample's characters that get a piece of their own, 0.9 to 1; the rest are spelt in bytes"""
