"""Byte-pair encoding (arXiv 1508.07909) of characters by SentencePiece, with lossless settings."""

from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import TrainedSentencepiece


class SentencepieceBpe(TrainedSentencepiece):
    r"""BPE trained by the `sentencepiece` library, without normalization and dummy prefix.

    Rare characters become bytes. The pieces depend neither on the number of threads nor on the
    order of the texts.

    Example:
        "the mask" becomes the pieces `the` `▁mask`; "\n" is a piece, and "<mask>" becomes `<`
        `mask` `>`.
    """

    NAME = "sentencepiece_bpe"
    MODEL = "bpe"
