"""Read all weights of a run in one process: its checkpoint, and the base model of its adapter."""

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


def read_all_weights(
    config: ModelConfig, directory: Path, index: Index, shapes: Mapping[str, Size]
) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by parameter, in fp32; those that it lacks come from `init_from`."""
    weights, base = read_weights(directory, index), read_state(index).base
    if not base:
        return weights
    source = config.init_from
    if source is None or not source.expanduser().is_dir():
        base = f"its base model {source} is missing: copy it back"
        raise ConfigurationError(f"{directory}: holds an adapter alone, and {base}")
    tensors = open_model(source.expanduser(), adapter=config.adapter).tensors
    names = [name for name in shapes if name not in weights and name in tensors]
    refuse_other_base(source, base, digest_of(tensors, names))
    for name in names:  # a table may have other padding here
        weights[name] = torch.zeros(shapes[name])
        rows = min(len(tensors[name]), len(weights[name]))
        weights[name][:rows] = tensors[name][:rows]
    return weights
