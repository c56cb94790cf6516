"""Write the int8 weights of a quantized model as torchao stores them, in a folder that transformers loads."""

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import Checkpoint, Export, is_quantized, map_for
from clozeline.model.quantization import INTEGERS
from clozeline.model.quantization.formats.int8 import Int8
from clozeline.tools.model_folder import write_tensors

_TABLES: Final = ("family.tokens", "heads.")


def int8_weights(checkpoint: Checkpoint, source: Path) -> list[str]:
    """Return the names of the linear maps that torchao's format can hold as integers.

    Tables stay in floating point there, as torchao's configurations of linear maps do not read them.

    Raises:
        ConfigurationError: the model is not quantized to int8.
    """
    quantization = checkpoint.config.quantization
    if quantization is None or not is_quantized(checkpoint) or quantization.name != "int8":
        stored = "no integers" if quantization is None else quantization.name
        raise ConfigurationError(
            f"--format torchao: expected a model of `clozeline compress method=int8`, {source} holds {stored}; "
            "compress it first, or export it without this option"
        )
    paths = [name.removesuffix(INTEGERS) for name in checkpoint.tensors if name.endswith(INTEGERS)]
    return [f"{path}.weight" for path in paths if not path.startswith(_TABLES)]


def write_torchao(
    folder: Path, export: Export, checkpoint: Checkpoint, names: list[str], model_type: str | None
) -> Export:
    """Write `model.safetensors` with torchao's tensors; return the export with what its config.json must say.

    Integers and scales of weights are those of our folder. torchao rounds activations with another scale, max / 127.5,
    so that its logits differ from ours as far as int8 does from fp32.

    Args:
        folder: that exists.
        export: of the dequantized model.
        checkpoint: the dequantized model.
        names: of `int8_weights`.
        model_type: as for `export_checkpoint`.

    Raises:
        ConfigurationError: torchao is not installed, or the class of transformers has no linear maps.
    """
    library = _import_torchao()
    key_map = map_for(checkpoint.config, checkpoint.token_ids, model_type or checkpoint.model_type)
    targets = key_map.targets(checkpoint.config, [name for name in names if name in checkpoint.tensors]).values()
    if any(target.transposed for target in targets):
        raise ConfigurationError(
            f"--format torchao: the class of type {key_map.model_type} stores transposed weights, which are no linear "
            "maps for torchao; export the dequantized weights without this option"
        )
    # by their names, with and without the prefix that a body alone lacks
    theirs = {target.name for target in targets} | {target.name.removeprefix(key_map.base) for target in targets}
    int8, settings = Int8(Int8.Options()), library["config"]()
    tensors: dict[str, Any] = {}
    for name, tensor in export.tensors.items():
        tensors[name] = tensor
        if name in theirs:  # dequantized weights round to the integers that they were made from
            integers, scales = int8.quantize(tensor)
            tensors[name] = library["tensor"](
                integers, scales[:, None], [1, tensor.shape[1]], tensor.dtype, act_quant_kwargs=library["activations"]
            )
    flat: Mapping[str, Tensor]
    flat, metadata = library["flatten"](tensors)
    write_tensors(folder / "model.safetensors", flat, {**metadata, "format": "pt"})
    entry = {"quant_method": "torchao", "quant_type": {"default": library["to_dict"](settings)}}
    return replace(export, config={**export.config, "quantization_config": entry})


def _import_torchao() -> dict[str, Any]:
    """Return what is used of torchao; its import prints harmless lines about kernels of other machines."""
    try:
        with redirect_stderr(io.StringIO()):
            from torchao.core.config import config_to_dict
            from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
            from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8Tensor, PerRow
            from torchao.quantization.quantize_.workflows.int8.int8_tensor import QuantizeTensorToInt8Kwargs
    except ImportError as error:
        raise ConfigurationError("--format torchao needs torchao: pip install 'clozeline[torchao]'") from error
    return {
        "config": Int8DynamicActivationInt8WeightConfig,
        "tensor": Int8Tensor,
        "activations": QuantizeTensorToInt8Kwargs(PerRow()),
        "flatten": flatten_tensor_state_dict,
        "to_dict": config_to_dict,
    }
