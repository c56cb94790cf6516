"""The model of a training run in one process: built from the run's configuration, filled from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from model.build import Model, build_model
from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet, open_shards
from pipeline.tokenizers import Tokenizer, find_tokenizer, load_tokenizer
from train.beginning.spelling import spellings_of
from train.beginning.whole_weights import read_whole
from train.checkpoint.format import Index
from train.checkpoint.parts import CheckpointReader
from train.checkpoint.run_weights import find_checkpoint
from train.checkpoint.state import read_state
from train.errors import CheckpointError
from train.run_directory import read_config

__all__ = ["TrainedModel", "load_checkpoint", "load_trained"]


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, its tokenizer and training set, and the step of its checkpoint."""

    model: Model
    tokenizer: Tokenizer
    shards: ShardSet
    step: int

    def refuse_other_tokenizer(self, shards: ShardSet) -> None:
        """Check that a set was made with the model's tokenizer.

        Raises:
            ConfigurationError: it was made with another.
        """
        ours, theirs = (one.manifest.tokenizer.fingerprint for one in (self.shards, shards))
        if ours != theirs:
            raise ConfigurationError(
                f"{shards.path}: was made with the tokenizer {theirs[:16]}, the run with {ours[:16]}: make it with the "
                "run's tokenizer"
            )


def load_trained(run: Path, step: int | None = None) -> TrainedModel:
    """Load a checkpoint of a run without DeepSpeed, whatever ZeRO stage wrote it.

    Args:
        run: the run directory.
        step: whose checkpoint to load; None: the one that the run would resume from.

    Raises:
        ConfigurationError: this is not a run directory, or it has no such checkpoint.
        CheckpointError: the checkpoint is damaged, or belongs to another model than config.yaml describes.
    """
    return load_checkpoint(run, *find_checkpoint(run, step))


def load_checkpoint(run: Path, directory: Path, index: Index) -> TrainedModel:
    """Load a checkpoint that was found, as `load_trained` does.

    Args:
        run: the run directory.
        directory: the checkpoint's.
        index: the checkpoint's.
    """
    config = read_config(run, read_state(index))
    shards = open_shards(config.data.first_set)
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids, spellings_of(config.model, shards))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    reader, weights = CheckpointReader(directory, index), read_whole(config.model, directory, index, shapes)
    if shapes != {name: tensor.shape for name, tensor in weights.items()}:
        raise CheckpointError(f"{directory}: holds another model than {run / 'config.yaml'} describes")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
        for name, buffer in model.named_buffers():
            if name in index.buffers:
                buffer.copy_(reader.buffer(name, buffer.shape))
    tokenizer = load_tokenizer(find_tokenizer(shards.path, facts.fingerprint))
    return TrainedModel(model.eval(), tokenizer, shards, int(index.state["step"]))
