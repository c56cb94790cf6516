"""The model of a training run in one process: built from the run's configuration, filled from its newest checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from model.build import Model, build_model
from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet, open_shards
from pipeline.tokenizers import Tokenizer, find_tokenizer, load_tokenizer
from train.checkpoint.format import CheckpointReader, Index
from train.run_directory import read_config

__all__ = ["TrainedModel", "load_trained"]


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, its tokenizer and training set, and the step of its checkpoint."""

    model: Model
    tokenizer: Tokenizer
    shards: ShardSet
    step: int


def load_trained(run: Path) -> TrainedModel:
    """Load the checkpoint that `RUN/checkpoints/latest` names, without DeepSpeed, whatever ZeRO stage wrote it.

    Raises:
        ConfigurationError: this is not a run directory, or it has no checkpoint yet.
        CheckpointError: the checkpoint is damaged.
    """
    latest = run / "checkpoints" / "latest"
    if not latest.is_file():
        raise ConfigurationError(f"{run}: expected a run directory with checkpoints/latest; train first, or wait")
    config = read_config(run)
    shards = open_shards(config.data.first_set)
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    directory = latest.parent / latest.read_text(encoding="utf-8").strip()
    index = Index.read(directory)
    reader = CheckpointReader(directory, index)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(reader.whole("weight", name))
        for name, buffer in model.named_buffers():
            if name in index.buffers:
                buffer.copy_(reader.buffer(name))
    tokenizer = load_tokenizer(find_tokenizer(shards.path, facts.fingerprint))
    return TrainedModel(model.eval(), tokenizer, shards, int(index.state["step"]))
