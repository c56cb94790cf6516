"""UMT5 (arXiv 2304.09151)."""

from typing import ClassVar

from clozeline.model.checkpoints._conversion.tables import layer_names
from clozeline.model.checkpoints.t5 import T5

_TABLE = {"position.table": "layer.0.SelfAttention.relative_attention_bias"}


class Umt5(T5):
    """mT5 whose layers have a table of distances each.

    Whether states are scaled before the head follows from the file: a tied head reads scaled ones, an untied one
    unscaled ones, as published models were trained. transformers 5 takes every file for a tied one and scales the
    states even if it has a head of its own: where config.json says `tie_word_embeddings: false`, its logits are ours
    times dim ** -0.5.
    """

    model_type = "umt5"
    stem = "UMT5"
    bare_end = "EncoderModel"
    feed_forward = "gated-gelu"
    fixed: ClassVar = {**T5.fixed, "position.per_layer": True}
    modules: ClassVar = {
        **T5.modules,
        **layer_names("family.encoder", "encoder.block", _TABLE),
        **layer_names("family.decoder", "decoder.block", _TABLE),
    }
