"""The model of a training run in one process: built from the run's configuration, filled from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from clozeline.errors import CheckpointError, ConfigurationError
from clozeline.model.build import Model, build_model
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.tools.runs.data.run_sets import SetPaths, described_sets
from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.part_reader import CheckpointReader
from clozeline.train.checkpoint.run_weights import find_checkpoint
from clozeline.train.checkpoint.state import read_state
from clozeline.train.data.sets.recorded_sets import RecordedSet, tokenizer_of_run
from clozeline.train.startup.merged_weights import read_whole
from clozeline.train.startup.run_directory import read_config
from clozeline.train.startup.token_characters import spellings_by


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, its tokenizer, the sets that it was trained on, and the step of its checkpoint."""

    model: Model
    tokenizer: Tokenizer
    sets: Sequence[RecordedSet]
    step: int

    @property
    def objectives(self) -> list[ObjectiveFacts]:
        """The objectives of its training, in all phases."""
        return [one.objective for one in self.sets]

    @property
    def max_length(self) -> int:
        """Tokens of a row that the model reads, special ones included.

        Those of its position table; without one, those that its export declares: `position.maximum`, or the longest
        training row.
        """
        limit = self.model.position_limit
        if limit is not None:
            return limit
        return max(self.model.config.position.maximum, *(one.max_length for one in self.sets))

    def refuse_other_tokenizer(self, shards: ShardSet) -> None:
        """Check that a set was made with the model's tokenizer.

        Raises:
            ConfigurationError: it was made with another.
        """
        ours, theirs = self.tokenizer.vocabulary.fingerprint, shards.manifest.tokenizer.fingerprint
        if ours != theirs:
            raise ConfigurationError(
                f"{shards.path}: was made with the tokenizer {theirs[:16]}, the run with {ours[:16]}: make it with the "
                "run's tokenizer"
            )


def load_trained(run: Path, step: int | None = None, given: SetPaths | None = None) -> TrainedModel:
    """Load a checkpoint of a run without DeepSpeed, whatever ZeRO stage wrote it.

    Args:
        run: the run directory; its shard sets are not read, unless an earlier version wrote it.
        step: whose checkpoint to load; None: the one that the run would resume from.
        given: present paths of the shard sets.

    Raises:
        ConfigurationError: this is not a run directory, or it has no such checkpoint.
        CheckpointError: the checkpoint is damaged, or belongs to another model than config.yaml describes.
    """
    return load_checkpoint(run, *find_checkpoint(run, step), given)


def load_checkpoint(run: Path, directory: Path, index: Index, given: SetPaths | None = None) -> TrainedModel:
    """Load a checkpoint that was found, as `load_trained` does.

    Args:
        run: the run directory.
        directory: the checkpoint's.
        index: the checkpoint's.
        given: present paths of the shard sets.
    """
    config = read_config(run, read_state(index))
    sets = described_sets(run, config.data, given)
    facts, tokenizer = sets[0].tokenizer, load_tokenizer(tokenizer_of_run(run, sets[0]))
    model = build_model(
        config.model, facts.vocab_size, facts.special_ids, spellings_by(config.model, lambda: tokenizer)
    )
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
    return TrainedModel(model.eval(), tokenizer, sets, int(index.state["step"]))
