"""Qwen 2 and 2.5 (arXiv 2407.10671)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.config_keys import (
    read_layer_types,
    read_windows,
    write_layer_types,
    write_window,
)
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.llama import Llama
from clozeline.model.configuration.model_config import ModelConfig

_BIASES = {"bias.qkv": True, "bias.out": False, "bias.ffn": False}


class Qwen2(Llama):
    """Llama with biases of queries, keys and values; layers from `max_window_layers` on may have a window."""

    model_type = "qwen2"
    stem = "Qwen2"
    tasks: ClassVar = {
        **Llama.tasks,
        "ForQuestionAnswering": Task("qa_outputs", options={"dropout": 0.0}, body=("model.", "transformer.")),
    }
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

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation and the windows; without `use_sliding_window` the other keys of the window mean nothing.

        Where both are there, the list of layer types takes precedence over `max_window_layers`.
        """
        given = {**self.defaults, **plain}
        window = given["sliding_window"] if given["use_sliding_window"] else None
        first = given["num_hidden_layers"] if window is None else given["max_window_layers"]
        kinds = read_layer_types(self.model_type, plain, lambda layer: layer >= first)
        return super().more_of_ours(plain, tensors) | read_windows(self.model_type, kinds, window)

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return the rotation and the windows, as a list; the number of layers without one is for older readers."""
        kinds, window = write_layer_types(config), write_window(config)
        local = [layer for layer in range(config.layers) if config.is_local(layer)]
        return super().more_of_theirs(config) | {
            "use_sliding_window": window is not None,
            "sliding_window": window,
            "max_window_layers": min(local, default=config.layers),
            "layer_types": kinds,
        }
