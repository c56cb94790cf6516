"""A model of ours with its weights, and what is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.errors import ConfigurationError, WeightsError, join_names
from clozeline.model.build import Model
from clozeline.model.configuration.model_config import ModelConfig, Quantization
from clozeline.model.layers.quantization import holds_integers, quantizable_maps


@dataclass(frozen=True)
class Checkpoint:
    """A model with our names, and the metadata of its folder."""

    config: ModelConfig
    vocab_size: int
    """number of ids that the model predicts; rows of the token table unless the folder is a run"""
    tensors: Mapping[str, Tensor]
    """our parameters, in the dtype of the file; in a quantized folder, some are integers of
    torchao"""
    token_ids: Mapping[str, Any]
    """`pad_token_id`, `decoder_start_token_id` and so on"""
    model_type: str | None
    files: tuple[Path, ...]
    absent: tuple[str, ...] = ()
    """parameters of the head, if the folder only has the body"""
    notes: tuple[str, ...] = ()
    """messages about skipped tensors and keys"""
    unread: Mapping[str, Tensor] = field(default_factory=dict)
    """tensors, by transformers' names, that a transformers class saves but our model does not read:
    an export to this class contains them again"""
    trained: tuple[str, ...] = ()
    """parameters of the head that a run trained with its adapter"""
    published: Mapping[str, str] = field(default_factory=dict)
    """texts of the config.json and generation_config.json that an export starts from"""
    fingerprint: str | None = None
    """fingerprint of the tokenizer, as its folder of ours records it"""


def build_checkpoint(checkpoint: Checkpoint) -> Model:
    """Build the model on the tensors of a checkpoint, in evaluation mode.

    The weights are in memory only once, so do not change them in place. They are converted to
    fp32, unless all are fp64.

    Raises:
        WeightsError: the folder has no head.
    """
    if checkpoint.absent:
        raise WeightsError(
            f"the checkpoint has no head: {join_names(checkpoint.absent)} are missing"
        )

    model = Model(checkpoint.config, checkpoint.vocab_size)
    # a matrix product needs one type
    is_double = all(tensor.dtype == torch.float64 for tensor in checkpoint.tensors.values())
    kept = torch.float64 if is_double else torch.float32
    # several modules have a tied parameter, which has one name
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters: dict[str, nn.Parameter] = {}

    for module in list(model.modules()):
        for key, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            name = names[id(parameter)]
            if name not in parameters:
                tensor = checkpoint.tensors[name]
                wide = tensor if tensor.dtype == kept else tensor.float()
                parameters[name] = nn.Parameter(wide, requires_grad=not holds_integers(tensor))
            setattr(module, key, parameters[name])

    return model.eval()


def fill_absent_heads(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with zeros for missing heads, for tools that only read the body."""
    if not checkpoint.absent:
        return checkpoint
    shapes = parameter_shapes(checkpoint.config, checkpoint.vocab_size)
    zeros = {name: torch.zeros(tuple(shapes[name])) for name in checkpoint.absent}
    return replace(checkpoint, tensors={**checkpoint.tensors, **zeros}, absent=())


def parameter_shapes(config: ModelConfig, vocab_size: int) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's parameters, without allocating them."""
    with torch.device("meta"):
        return {
            name: parameter.shape
            for name, parameter in Model(config, vocab_size).named_parameters()
        }


def check_shapes(
    tensors: Mapping[str, Tensor], expected: Mapping[str, list[int]], where: str
) -> None:
    """Raise WeightsError unless the tensors have exactly these names and shapes."""
    # the names must agree
    if missing := expected.keys() - tensors.keys():
        raise WeightsError(f"{where}: {len(missing)} tensors are missing: {join_names(missing)}")
    if unknown := tensors.keys() - expected.keys():
        raise WeightsError(
            f"{where}: {len(unknown)} tensors that the model does not have: {join_names(unknown)}"
        )
    # so must the shapes
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if wrong := [
        f"{name}: expected {s}, got {shapes[name]}"
        for name, s in expected.items()
        if shapes[name] != s
    ]:
        raise WeightsError(
            f"{where}: {len(wrong)} tensors have another shape than config.json implies: "
            f"{join_names(wrong, 4)}"
        )


def integer_weights(checkpoint: Checkpoint, quantization: Quantization) -> list[str]:
    """Return the names of the parameters that become integers, each once.

    Raises:
        ConfigurationError: there are none, or the model was trained for other integers.
    """
    if (trained := checkpoint.config.quantization) not in (None, quantization):
        raise ConfigurationError(
            f"the model was trained for model.quantization={trained}, got {quantization}: use "
            f"method={trained}"
        )
    with torch.device("meta"):
        model = Model(replace(checkpoint.config, quantization=None), checkpoint.vocab_size)
        stored = {id(module.weight) for module in quantizable_maps(model, quantization).values()}
    return [name for name, parameter in model.named_parameters() if id(parameter) in stored]
