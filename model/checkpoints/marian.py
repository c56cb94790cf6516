"""Marian's translation models (arXiv 1804.00344), such as those of OPUS-MT."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints.pegasus import FixedPositions


class Marian(FixedPositions):
    """The norm after each block; the class computes its position tables and does not save them."""

    model_type = "marian"
    stem = "Marian"
    class_ends: ClassVar = {("lm",): "MTModel"}
    only: ClassVar = {
        "normalize_before": (False,),
        "is_decoder": (False,),
        "share_encoder_decoder_embeddings": (True,),
    }
    also_read = (*FixedPositions.also_read, "decoder_vocab_size")
    buffers: ClassVar = (*FixedPositions.buffers, r"^(model\.)?(encoder|decoder)\.embed_positions\.weight$")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        if (own := plain.get("decoder_vocab_size")) not in (None, plain.get("vocab_size")):
            why = f"expected that of the encoder, {plain.get('vocab_size')}, got {own}: both stacks share one table"
            self.refuse("decoder_vocab_size", why)
        return super().more_of_ours(plain, tensors)
