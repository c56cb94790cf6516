"""Mistral (arXiv 2310.06825)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.config_keys import SLIDING, read_windows, write_window
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import ANSWER, without_keys
from clozeline.model.checkpoints.llama import Llama
from clozeline.model.configuration.model_config import ModelConfig

_BIASES = ("bias.qkv", "bias.out", "bias.ffn")


class Mistral(Llama):
    """Llama without biases, whose layers all have the window; null, not an absent key, means that there is none."""

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

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        window = {**self.defaults, **plain}["sliding_window"]
        kinds = [] if window is None else [SLIDING] * plain["num_hidden_layers"]
        return super().more_of_ours(plain, tensors) | read_windows(self.model_type, kinds, window)

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return super().more_of_theirs(config) | {"sliding_window": write_window(config)}
