"""Qwen 2 and 2.5 (arXiv 2407.10671)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys
from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints.llama import Llama, LocalLlama
from clozeline.model.configuration.model_config import ModelConfig

_BIASES = {"bias.qkv": True, "bias.out": False, "bias.ffn": False}


class Qwen2(LocalLlama):
    """Llama with biases of queries, keys and values; layers from `max_window_layers` on may have a window."""

    model_type = "qwen2"
    stem = "Qwen2"
    fixed: ClassVar = {**Llama.fixed, **_BIASES}
    fields, defaults = without_keys(
        Llama.fields,
        Llama.defaults,
        _BIASES,
        num_key_value_heads=32,
        max_position_embeddings=32768,
        use_sliding_window=False,
        sliding_window=4096,
        max_window_layers=28,
    )
    also_read = (*Llama.also_read, "layer_types")

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        return bool(layer >= given["max_window_layers"])

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return the rotation and the windows, as a list; the number of layers without one is for older readers."""
        local = [layer for layer in range(config.layers) if config.is_local(layer)]
        return super().more_of_theirs(config) | {"max_window_layers": min(local, default=config.layers)}
