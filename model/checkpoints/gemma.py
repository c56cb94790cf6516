"""Gemma 1 (arXiv 2403.08295)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import ACTIVATIONS, without_keys
from clozeline.model.checkpoints.llama import Llama

_TANH = "gelu_pytorch_tanh"


class Gemma(Llama):
    """Llama with RMSNorm whose gain is 1 + weight, scaled embeddings, and a feed-forward block gated by GELU.

    `gelu` means the approximation by tanh, as in the first files, whose class had no other one.
    """

    model_type = "gemma"
    stem = "Gemma"
    tasks: ClassVar = {kind: Llama.tasks[kind] for kind in ("ForSequenceClassification", "ForTokenClassification")}
    fixed: ClassVar = {**Llama.fixed, "norm": "rms_one", "emb_scale": True, "bias.ffn": False}
    fields, defaults = without_keys(
        Llama.fields,
        Llama.defaults,
        ["bias.ffn"],
        head_dim=256,
        hidden_act=_TANH,
        max_position_embeddings=8192,
        num_key_value_heads=16,
        tie_word_embeddings=True,
    )
    only: ClassVar = {"use_bidirectional_attention": (None, False)}
    activations: ClassVar = {_TANH: "gelu_tanh"} | ACTIVATIONS | {"gelu": "gelu_tanh"}
    also_read = (*Llama.also_read, "hidden_activation")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation; refuse a second key of the activation, of files in between, that says another one."""
        act, second = (plain.get(key) or _TANH for key in ("hidden_act", "hidden_activation"))
        if plain.get("hidden_activation") and self.activations.get(second) != self.activations.get(act):
            self.refuse("hidden_activation", f"expected that of hidden_act, {act!r}, got {second!r}")
        return super().more_of_ours(plain, tensors)
