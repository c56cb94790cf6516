"""Remove layers of a trained model: after LayerDrop (arXiv 1909.11556), or for a student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import Natural, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.methods._method import Batch, Compressed, Method
from clozeline.extensions.compression.selection import split_name
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.model_config import ModelConfig


class LayersMethod(Method):
    """Keep some layers of each stack, in their order.

    Layer i of the smaller model has the bits of layer keep[i]. Without further training this is for
    models that were trained with LayerDrop; other models are where a student starts (DistilBERT,
    arXiv 1910.01108).
    """

    options: Options
    published_result = "half the layers: 97 % of GLUE after distillation, 60 % faster (1910.01108)"

    @config_class
    class Options:
        """Layers to keep."""

        keep: Annotated[tuple[Natural, ...], Field(min_length=1)]
        """Indices of the layers to keep, ascending, from 0: [0, 2, 4]; in an encoder_decoder, of
        the encoder."""
        keep_decoder: Annotated[tuple[Natural, ...], Field(min_length=1)] | None = None
        """encoder_decoder: indices of the decoder layers to keep; null = all."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        config = checkpoint.config
        self.check_layers_unshared(config)
        kept = {"encoder": self._check("keep", self.options.keep, config.layers)}

        if self.options.keep_decoder is not None:
            if config.architecture != "encoder_decoder":
                raise ConfigurationError(
                    f"keep_decoder: the family {config.family} has one stack; remove the key"
                )
            kept["decoder"] = self._check(
                "keep_decoder", self.options.keep_decoder, config.decoder_depth
            )
        elif config.architecture == "encoder_decoder":
            kept["decoder"] = tuple(range(config.decoder_depth))

        _check_moved_layers(config, kept["encoder"])
        # keys that have a value per layer
        changes: dict[str, object] = (
            {"decoder_layers": len(kept["decoder"])} if "decoder" in kept else {}
        )

        if config.local is not None and (types := config.local.layer_types) is not None:
            changes["local"] = {
                **asdict(config.local),
                "layer_types": [types[layer] for layer in kept["encoder"]],
            }

        if nope := config.position.nope_layers:
            moved = [new for new, old in enumerate(kept["encoder"]) if old in nope]
            changes["position"] = {**asdict(config.position), "nope_layers": moved}

        def part(name: str) -> Tensor:
            if (parts := split_name(name)) is None:
                return checkpoint.tensors[name]
            stack, layer, rest = parts
            numbers = kept["decoder" if ".decoder." in stack else "encoder"]
            return checkpoint.tensors[f"{stack}{numbers[layer]}.{rest}"]

        line = "; ".join(
            f"{stack} layers kept: {', '.join(map(str, numbers))}"
            for stack, numbers in kept.items()
        )
        return Compressed(
            self.build_smaller(checkpoint, part, layers=len(kept["encoder"]), **changes), (line,)
        )

    @staticmethod
    def _check(key: str, keep: tuple[int, ...], count: int) -> tuple[int, ...]:
        if list(keep) != sorted(set(keep)):
            raise ConfigurationError(
                f"{key}: expected different layers in ascending order, got {list(keep)}"
            )
        if keep[-1] >= count:
            raise ConfigurationError(
                f"{key}: the model has layers 0 to {count - 1}, got {keep[-1]}: keep layers that "
                "exist"
            )
        return keep


def _check_moved_layers(config: ModelConfig, keep: tuple[int, ...]) -> None:
    """Raise ConfigurationError if a layer would move whose computation depends on its index."""
    moved = [(new, old) for new, old in enumerate(keep) if new != old]
    disentangled = config.position.disentangled
    last = config.layers - 1

    if config.family in ("elmo", "awd_lstm", "replaced_tokens"):
        raise ConfigurationError(
            f"method=layers: expected one stack of equal layers, got the family {config.family}; "
            "export a discriminator first, and remove layers of it"
        )

    # scores, windows and norms that depend on the layer's index
    if config.scale_by_depth and moved:
        raise ConfigurationError(
            "method=layers: model.scale_by_depth divides scores by the index: keep [0, 1, ..., n]"
        )

    period = None if config.local is None else config.local.global_every
    if period is not None and any(
        config.is_local(new) != config.is_local(old) for new, old in moved
    ):
        raise ConfigurationError(
            f"method=layers: every {period} layers, a layer sees the entire row: keep layers so "
            "that such layers stay at these indices"
        )

    if not config.first_norm and keep[0] != 0:
        raise ConfigurationError(
            "method=layers: without model.first_norm, layer 0 differs from all others: keep it"
        )

    # DeBERTa's first and last layer
    if disentangled is not None and disentangled.convolution and keep[0] != 0:
        raise ConfigurationError(
            "method=layers: DeBERTa's convolution is parallel to layer 0: keep it"
        )

    if disentangled is not None and disentangled.mask_decoder and keep[-1] != last:
        raise ConfigurationError(
            f"method=layers: DeBERTa's mask decoder is the last layer: keep layer {last}"
        )

    # heads with a weight per layer
    if mixing := [
        name for name, head in config.heads.items() if head.scalar_mix or any(head.parts())
    ]:
        raise ConfigurationError(
            f"method=layers: the head {mixing[0]} reads all layers (scalar_mix or exits) and has "
            "weights for each; fine-tune a head without them"
        )
