"""Masked LM for encoder-decoders: the decoder predicts the masked tokens at their positions."""

from typing import Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._masked_rows import MaskedRow, RoleOptions, RowGrouping
from clozeline.pipeline.vocabulary import Vocabulary


class MaskedEncoderDecoder(MaskedRow):
    """BERT-style denoising with an encoder-decoder (T5: arXiv 1910.10683 §3.3; BERT: 1810.04805).

    Rows are masked as in masked LM. At position t the decoder reads the token at t - 1 if it is a
    label, else [MASK]. At t = 0 it reads `<s>`. Its loss counts labels only. With
    `mask_share` 1 every label becomes [MASK]. If `mask_rate` is 1 as well, the decoder is a
    language model without input. With `cross_documents: false`, `<s>` starts each document of a
    packed row. Features: `input_ids` [n + 2], `label_positions` and `label_ids` [K].

    Example (mask_rate 0.25, so 2 of 8; both become [MASK]):
        input   [CLS] The puppies are [MASK] outside [MASK] house . [SEP]
        target  4 frolicking, 6 the
        decoder <s> and [MASK], but frolicking at 5 and the at 7
    """

    architectures = ("encoder_decoder",)
    heads = ("lm",)

    @config_class
    class Options(RoleOptions):
        grouping: RowGrouping = "document"
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "bos"
        """First token of the decoder's input; added when batches are built, never stored."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.decoder_start = self.id_of(options.decoder_start)
