"""SmolLM3 (https://huggingface.co/blog/smollm3)."""

from typing import Any

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints.llama import Llama, LocalLlama
from clozeline.model.configuration.model_config import ModelConfig


class SmolLm3(LocalLlama):
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

    def nope_layers(self, given: Keys) -> tuple[int, ...]:
        """Return the layers without a rotation; a 0 in their list is such a layer."""
        layers, interval = given["num_hidden_layers"], given["no_rope_layer_interval"]
        rotated = given.get("no_rope_layers")
        if rotated is None:
            rotated = [(layer + 1) % interval for layer in range(layers)]
        if not isinstance(rotated, list) or len(rotated) < layers:
            self.refuse("no_rope_layers", f"expected a number for each of {layers} layers, got {rotated}")
        return tuple(layer for layer in range(layers) if not rotated[layer])

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        return layer in self.nope_layers(given)

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        nope = self.nope_layers({**self.defaults, **plain})
        return {**super().more_of_ours(plain, tensors), "position.nope_layers": nope}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        rotated = [int(layer not in config.position.nope_layers) for layer in range(config.layers)]
        return super().more_of_theirs(config) | {"no_rope_layers": rotated}
