"""Mistral (arXiv 2310.06825)."""

from typing import ClassVar

from clozeline.model.checkpoints._conversion.tables import ANSWER, without_keys
from clozeline.model.checkpoints.llama import Llama, LocalLlama

_BIASES = ("bias.qkv", "bias.out", "bias.ffn")


class Mistral(LocalLlama):
    """Llama without biases, whose layers all have the window."""

    model_type = "mistral"
    stem = "Mistral"
    tasks: ClassVar = {**Llama.tasks, "ForQuestionAnswering": ANSWER}
    fixed: ClassVar = {**Llama.fixed, **dict.fromkeys(_BIASES, False)}
    fields, defaults = without_keys(
        Llama.fields,
        Llama.defaults,
        _BIASES,
        num_key_value_heads=8,
        max_position_embeddings=131072,
        sliding_window=4096,
    )
    also_read = (*Llama.also_read, "layer_types")
    lists_layers = False
