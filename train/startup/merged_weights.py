"""All weights of a run in one process: those of its checkpoint, and those of the model beside its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Size, Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.run_weights import read_weights
from clozeline.train.checkpoint.state import read_state
from clozeline.train.startup.initial_weights import digest_of, open_model, refuse_other_base


def read_whole(config: ModelConfig, directory: Path, index: Index, shapes: Mapping[str, Size]) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by parameter, in fp32; those that it lacks come from `init_from`.

    Args:
        config: of the run's model.
        directory: of the checkpoint.
        index: its index.
        shapes: of the parameters of the model.

    Raises:
        ConfigurationError: the model beside the adapter is not there, or not the one that the run began with.
    """
    weights, base = read_weights(directory, index), read_state(index).base
    if not base:
        return weights
    source = config.init_from
    if source is None or not source.expanduser().is_dir():
        raise ConfigurationError(
            f"{directory}: holds an adapter alone, and the model beside it, {source}, is not there: copy it back"
        )
    _, tensors = open_model(source.expanduser())
    names = [name for name in shapes if name not in weights and name in tensors]
    refuse_other_base(source, base, digest_of(tensors, names))
    return weights | {name: _pad(tensors[name], shapes[name]) for name in names}


def _pad(tensor: Tensor, shape: Size) -> Tensor:
    """Return a tensor with the rows of this vocabulary's padding, which no head predicts."""
    if tensor.shape == shape:
        return tensor.float()
    whole = torch.zeros(shape)
    rows = min(len(tensor), len(whole))
    whole[:rows] = tensor[:rows]
    return whole
