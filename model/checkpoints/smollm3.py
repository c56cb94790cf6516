"""SmolLM3 (https://huggingface.co/blog/smollm3)."""

from typing import Any

from clozeline.model.checkpoints._conversion.config_keys import (
    read_layer_types,
    read_windows,
    write_layer_types,
    write_window,
)
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints.llama import Llama
from clozeline.model.configuration.model_config import ModelConfig


class SmolLm3(Llama):
    """Llama whose every fourth layer does not rotate queries and keys, unless a list says which; these may be local."""

    model_type = "smollm3"
    stem = "SmolLM3"
    fields, defaults = without_keys(
        Llama.fields,
        Llama.defaults,
        (),
        num_key_value_heads=4,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        use_sliding_window=False,
        sliding_window=None,
        no_rope_layer_interval=4,
    )
    theta = 2e6
    also_read = (*Llama.also_read, "no_rope_layers", "layer_types")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation, the layers without it, and the windows; a 0 in their list is such a layer."""
        given = {**self.defaults, **plain}
        layers, interval = given["num_hidden_layers"], given["no_rope_layer_interval"]
        rotated = plain.get("no_rope_layers")
        if rotated is None:
            rotated = [(layer + 1) % interval for layer in range(layers)]
        if not isinstance(rotated, list) or len(rotated) < layers:
            self.refuse("no_rope_layers", f"expected a number for each of {layers} layers, got {rotated}")
        nope = tuple(layer for layer in range(layers) if not rotated[layer])
        window = given["sliding_window"] if given["use_sliding_window"] else None
        kinds = read_layer_types(self.model_type, plain, lambda layer: window is not None and layer in nope)
        found = super().more_of_ours(plain, tensors) | read_windows(self.model_type, kinds, window)
        return {**found, "position.nope_layers": nope}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        window = write_window(config)
        return super().more_of_theirs(config) | {
            "no_rope_layers": [int(layer not in config.position.nope_layers) for layer in range(config.layers)],
            "layer_types": write_layer_types(config),
            "use_sliding_window": window is not None,
            "sliding_window": window,
        }
