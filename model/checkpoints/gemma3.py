"""Gemma 3 without images (arXiv 2503.19786)."""

from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.config_keys import FULL, SLIDING
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.rope_keys import read_unscaled_base, write_rotation
from clozeline.model.checkpoints._conversion.tables import SCORE, HeadedClass, without_keys
from clozeline.model.checkpoints.gemma2 import NORMS, Gemma2
from clozeline.model.checkpoints.llama import QK_NORMS, llama_names
from clozeline.model.configuration.model_config import ModelConfig

_LOCAL_BASE: Final = 1e4


class Gemma3(Gemma2):
    """Gemma 2 with a norm of each query and key, and a rotation of their own in layers with a window.

    Its files may have `attn_logit_softcapping`, which its class never reads.
    """

    model_type = "gemma3_text"
    stem = "Gemma3"
    bare_end = "TextModel"
    tasks: ClassVar = {"ForSequenceClassification": SCORE}
    fixed: ClassVar = {**Gemma2.fixed, "qk_norm": "head"}
    fields, defaults = without_keys(
        Gemma2.fields,
        Gemma2.defaults,
        ["attn_logit_softcapping"],
        max_position_embeddings=131072,
        final_logit_softcapping=None,
    )
    theta: ClassVar = 1e6
    also_read = (
        *Gemma2.also_read,
        *("rope_local_base_freq", "attn_logit_softcapping", "sliding_window_pattern", "_sliding_window_pattern"),
    )
    only: ClassVar = {"use_bidirectional_attention": (False, None)}
    modules: ClassVar = llama_names({**NORMS, **QK_NORMS})

    def task_class(self, ending: str) -> HeadedClass:
        headed = super().task_class(ending)
        return headed._replace(name=headed.name.replace("Gemma3", "Gemma3Text"))

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        return (layer + 1) % given.get("sliding_window_pattern", 6) != 0

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the base and scaling of global layers, and the base of local ones, which are never scaled."""
        forms = plain.get("rope_parameters") or {}
        if others := sorted(set(forms) - {FULL, SLIDING}):
            self.refuse("rope_parameters", f"expected the keys {FULL} and {SLIDING}, got {', '.join(others)}")
        base = read_unscaled_base(self.model_type, plain, SLIDING, "rope_local_base_freq", _LOCAL_BASE)
        found = super().more_of_ours({**plain, "rope_parameters": forms.get(FULL)}, tensors)
        return found | ({"local.theta": base} if "local.window" in found else {})

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return their keys; both rotations in the current form, and in the former one for older readers."""
        rotation, local = write_rotation(config.position), config.local
        base = _LOCAL_BASE if local is None else local.theta or config.position.theta
        forms = {FULL: rotation["rope_parameters"], SLIDING: {"rope_type": "default", "rope_theta": base}}
        return super().more_of_theirs(config) | rotation | {"rope_parameters": forms, "rope_local_base_freq": base}
