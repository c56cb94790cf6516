"""OLMo 2 (arXiv 2501.00656)."""

from typing import ClassVar

from clozeline.model.checkpoints._conversion.tables import SCORE, without_keys
from clozeline.model.checkpoints.llama import QK_NORMS, Llama, llama_names


class Olmo2(Llama):
    """Llama with norms on the branches instead of before them, and norms over the entire queries and keys."""

    model_type = "olmo2"
    stem = "Olmo2"
    tasks: ClassVar = {"ForSequenceClassification": SCORE}
    fixed: ClassVar = {**Llama.fixed, "bias.ffn": False, "norm_place": "branch", "qk_norm": "all"}
    fields, defaults = without_keys(Llama.fields, Llama.defaults, ["bias.ffn"], rms_norm_eps=1e-5)
    also_read = (*Llama.also_read, "layer_types")
    modules: ClassVar = llama_names(
        {
            **QK_NORMS,
            "attention.branch_norm": "post_attention_layernorm",
            "feed_forward.branch_norm": "post_feedforward_layernorm",
        }
    )
