"""ModernBERT as a decoder (Ettin, arXiv 2507.11412)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import DROPOUT, attention_names, layer_names
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.modernbert import ModernBert
from clozeline.model.configuration.model_config import ModelConfig

_QKV = attention_names("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.Wo")


class ModernBertDecoder(ModernBert):
    """ModernBERT from left to right: separate queries, keys and values, and a window that counts the token itself."""

    model_type = "modernbert-decoder"
    stem = "ModernBertDecoder"
    class_ends: ClassVar = {("lm",): "ForCausalLM"}
    head_options: ClassVar = {"projection": "transformed"}
    projections = ("transformed",)
    tasks: ClassVar = {
        "ForSequenceClassification": Task("classifier", "head.dense", "head.norm", {"hidden_norm": True}, DROPOUT, 0.0)
    }
    fixed: ClassVar = {**ModernBert.fixed, "family": "decoder"}
    also_read = (*ModernBert.also_read, "sliding_window")
    modules: ClassVar = {
        **{
            name: at for name, at in ModernBert.modules.items() if "attention.body" not in name and "heads." not in name
        },
        **layer_names("family.stack", "model.layers", _QKV),
        "heads.lm.transform": "lm_head.dense",
        "heads.lm.norm": "lm_head.norm",
        "heads.lm.projection": "decoder",
    }

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return what ModernBERT has, and the window."""
        found = super().more_of_ours({**plain, "local_attention": 128}, tensors)
        if "local.window" in found:
            found["local.window"] = plain.get("sliding_window", (plain.get("local_attention", 128) or 0) // 2) - 1
        return found

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        seen = 1 + (0 if config.local is None else config.local.window)
        return {**super().more_of_theirs(config), "sliding_window": seen, "local_attention": 2 * seen}

    def task_options(self, ending: str, plain: Keys) -> dict[str, Any]:
        hidden = self.activations.get(plain.get("classifier_activation", "gelu"))
        return {"hidden": hidden, "bias": bool(plain.get("classifier_bias", False))}

    def task_keys(self, config: ModelConfig) -> dict[str, Any]:
        return {}
