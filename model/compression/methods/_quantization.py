"""The methods that store weights as integers of torchao, and the weights that they take."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression.methods._method import Batch, Compressed, Method
from clozeline.model.configuration.model_config import Quantization
from clozeline.model.layers.quantization import linear_maps, quantize_weight


class QuantizationMethod(Method):
    """Store the linear maps of the body as integers; norms, biases, heads and tables stay in floating point."""

    quantization: ClassVar[Quantization]

    @config_class
    class Options:
        """No options."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        names = integer_weights(checkpoint, self.quantization)
        tensors = {
            name: quantize_weight(tensor, self.quantization) if name in names else tensor
            for name, tensor in checkpoint.tensors.items()
        }
        line = f"{self.quantization}: {len(names)} matrices; norms, biases, heads and tables stay in floating point"
        config = replace(checkpoint.config, quantization=None)
        return Compressed(replace(checkpoint, config=config, tensors=tensors), (line,))


def integer_weights(checkpoint: Checkpoint, quantization: Quantization) -> list[str]:
    """Return the names of the parameters that become integers, each once.

    Raises:
        ConfigurationError: there are none, or the model was trained for other integers.
    """
    if (trained := checkpoint.config.quantization) not in (None, quantization):
        raise ConfigurationError(
            f"the model was trained for model.quantization={trained}, got {quantization}: use method={trained}"
        )
    with torch.device("meta"):
        model = Model(replace(checkpoint.config, quantization=None), checkpoint.vocab_size)
        stored = {id(module.weight) for module in linear_maps(model, quantization).values()}
    return [name for name, parameter in model.named_parameters() if id(parameter) in stored]
