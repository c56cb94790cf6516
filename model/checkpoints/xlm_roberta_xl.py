"""XLM-R XL and XXL (arXiv 2105.00572)."""

from typing import ClassVar

from clozeline.model.checkpoints.bert import BODY, DEFAULTS, FIXED, body_names
from clozeline.model.checkpoints.roberta import Roberta

_LAYER = {**BODY, "attention.norm": "attention.self_attn_layer_norm", "feed_forward.norm": "LayerNorm"}


class XlmRobertaXl(Roberta):
    """RoBERTa with the norms before attention and feed-forward block, and one after the last layer."""

    model_type = "xlm-roberta-xl"
    stem = "XLMRobertaXL"
    fixed: ClassVar = {**FIXED, "norm_place": "pre", "final_norm": True, "emb_norm": False}
    defaults: ClassVar = {**DEFAULTS, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    modules: ClassVar = {
        **Roberta.modules,
        **body_names("roberta.", _LAYER),
        "family.stack.norm": "roberta.encoder.LayerNorm",
    }
