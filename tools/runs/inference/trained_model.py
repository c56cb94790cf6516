"""Load the model of a training run in one process: built from the run's configuration, filled from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clozeline.errors import CheckpointError, ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.tools.command import require_run
from clozeline.tools.runs.data.run_sets import SetPaths, read_recorded_sets
from clozeline.train.checkpoint.format import Index
from clozeline.train.data.sets.recorded_sets import RecordedSet, tokenizer_of_run

if TYPE_CHECKING:
    from clozeline.model.build import Model


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, its tokenizer, its training sets, and the step of its checkpoint."""

    model: Model
    tokenizer: Tokenizer
    sets: Sequence[RecordedSet]
    step: int

    @property
    def objectives(self) -> list[ObjectiveFacts]:
        """The objectives of its training, in all phases."""
        return [recorded.objective for recorded in self.sets]

    @property
    def max_length(self) -> int:
        """Maximum tokens per row, special tokens included.

        The size of its position table; without one, what its export declares: `position.maximum`, or the longest
        training row.
        """
        limit = self.model.position_limit
        if limit is not None:
            return limit
        return max(self.model.config.position.maximum, *(recorded.max_length for recorded in self.sets))

    def require_same_tokenizer(self, shards: ShardSet) -> None:
        """Raise ConfigurationError for a set made with another tokenizer."""
        ours, theirs = self.tokenizer.vocabulary.fingerprint, shards.manifest.tokenizer.fingerprint
        if ours != theirs:
            raise ConfigurationError(
                f"{shards.path}: was made with the tokenizer {theirs[:16]}, the run with {ours[:16]}: make it with the "
                "run's tokenizer"
            )


def load_trained(run: Path, step: int | None = None, set_paths: SetPaths | None = None) -> TrainedModel:
    """Load a checkpoint of a run without DeepSpeed, whichever ZeRO stage wrote it.

    The run's shard sets are not read, unless an earlier version wrote it. `step` None: the one that the run would
    resume from.
    """
    require_run(run)
    from clozeline.train.checkpoint.run_weights import find_checkpoint

    return load_checkpoint(run, *find_checkpoint(run, step), set_paths)


def load_checkpoint(run: Path, directory: Path, index: Index, set_paths: SetPaths | None = None) -> TrainedModel:
    """Load a given checkpoint of a run, as `load_trained` does."""
    import torch

    from clozeline.model.adaptive_computation.token_pruning import prune_by
    from clozeline.model.build import build_model
    from clozeline.train.checkpoint.part_reader import CheckpointReader
    from clozeline.train.checkpoint.state import read_state
    from clozeline.train.startup.merged_weights import read_all_weights
    from clozeline.train.startup.run_directory import read_config
    from clozeline.train.startup.token_characters import spellings_by

    state = read_state(index)
    config = read_config(run, state)
    sets = read_recorded_sets(run, config.data, set_paths)
    facts, tokenizer = sets[0].tokenizer, load_tokenizer(tokenizer_of_run(run, sets[0]))
    spellings = spellings_by(config.model, lambda: tokenizer)
    model = build_model(config.model, facts.vocab_size, facts.special_ids, spellings)
    ours = dict(model.named_parameters())
    shapes = {name: tensor.shape for name, tensor in ours.items()}
    reader, weights = CheckpointReader(directory, index), read_all_weights(config.model, directory, index, shapes)
    if shapes != {name: tensor.shape for name, tensor in weights.items()}:
        raise CheckpointError(f"{directory}: holds another model than {run / 'config.yaml'} describes")
    with torch.no_grad():
        for name, tensor in ours.items():
            tensor.copy_(weights[name])
        for name, buffer in model.named_buffers():
            if name in index.buffers:
                buffer.copy_(reader.buffer(name, buffer.shape))
    return TrainedModel(prune_by(model.eval(), state.token_rule), tokenizer, sets, state.step)
