"""Write a model with integer weights of torchao, in a folder that transformers loads."""

from dataclasses import replace
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.class_fit import fit_to_class
from clozeline.extensions.published.conversion.export import Export
from clozeline.model.checkpoints.checkpoint import Checkpoint, integer_weights
from clozeline.model.configuration.model_config import Quantization
from clozeline.model.layers.quantization import flatten_integers, quantize_weight, torchao_config
from clozeline.tools.model_folder import write_tensors


def integers_of_class(checkpoint: Checkpoint, quantization: Quantization) -> set[str]:
    """Return the tensors of the class of transformers that become integers.

    Raises:
        ConfigurationError: no class holds the model, or it has other matrices than linear maps.
    """
    checkpoint, key_map = fit_to_class(checkpoint, checkpoint.model_type)
    targets = key_map.tensors.targets(
        checkpoint.config, integer_weights(checkpoint, quantization)
    ).values()
    if any(target.transposed or target.shape is not None for target in targets):
        raise ConfigurationError(
            f"the class of type {key_map.model_type} multiplies by transposed weights"
        )
    return {target.name for target in targets}


def write_torchao(
    folder: Path, export: Export, checkpoint: Checkpoint, quantization: Quantization
) -> Export:
    """Write `model.safetensors` with integers.

    Return the export with what its config.json must say.

    Args:
        folder: that exists.
        export: of the model; its tensors are taken.
        checkpoint: the model, floating-point.
        quantization: kind of integers.
    """
    config = torchao_config(quantization)
    names = integers_of_class(checkpoint, quantization)
    from torchao.core.config import config_to_dict

    others = []
    tensors = {}

    while export.tensors:  # a matrix and its integers are in memory one at a time
        name, tensor = export.tensors.popitem()
        tensors[name] = quantize_weight(tensor, quantization) if name in names else tensor
        if tensor.ndim == 2 and name.endswith(".weight") and name not in names:
            others.append(name.removesuffix(".weight"))

    flattened, metadata = flatten_integers(tensors)
    write_tensors(folder / "model.safetensors", flattened, metadata)
    entry = {
        "quant_method": "torchao",
        "quant_type": {"default": config_to_dict(config)},
        "modules_to_not_convert": sorted(others),
    }

    return replace(export, config={**export.config, "quantization_config": entry})
