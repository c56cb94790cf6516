"""GPT-1 (Radford et al. 2018)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import KeyMap, Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import QKV, SCORE, fused_names, layer_names
from clozeline.model.checkpoints.gpt2 import DEFAULTS, FIELDS, LAYER


class OpenaiGpt(KeyMap):
    """Post-norm decoder without a final norm; its "gelu" is the tanh approximation."""

    model_type = "openai-gpt"
    stem = "OpenAIGPT"
    class_ends: ClassVar = {("lm",): "LMHeadModel"}
    base = "transformer."
    tasks: ClassVar = {"ForSequenceClassification": SCORE}
    fixed: ClassVar = {"family": "decoder", "norm_place": "post", "final_norm": False, "position.kind": "learned"}
    fields: ClassVar = FIELDS
    defaults: ClassVar = {**DEFAULTS, "afn": "gelu"}
    activation = "afn"
    activations: ClassVar = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
    modules: ClassVar = {
        "family.tokens": "transformer.tokens_embed",
        "family.stack.position.table": "transformer.positions_embed",
        **layer_names("family.stack", "transformer.h", LAYER),
        **fused_names("transformer.h.{i}.attn.c_attn", QKV),
        "heads.lm.projection": "lm_head",
    }
    transposed = ("c_attn", "c_proj", "c_fc")
    buffers = (r"\.attn\.bias$", r"(^|\.)position_ids$")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        return {"ffn_dim": 4 * plain["n_embd"]}
