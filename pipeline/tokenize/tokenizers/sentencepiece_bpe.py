"""Byte-pair encoding (arXiv 1508.07909) of characters by SentencePiece, with lossless settings."""

from typing import ClassVar

from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class SentencepieceBpe(TrainedSentencepiece):
    r"""BPE pieces of the `sentencepiece` library: no normalization, no dummy prefix, bytes for rare characters.

    The pieces depend neither on the number of threads nor on the order of the texts.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<`
        `mask` `>`.
    """

    NAME: ClassVar[str] = "sentencepiece_bpe"
    MODEL: ClassVar[str] = "bpe"
