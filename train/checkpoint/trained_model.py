"""A trained model on disk, found, verified and read once: a run at one of its checkpoints, or a folder with a model.

Evaluation, prediction, generation, export, compression, teaching and initial weights begin here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128

from clozeline.configuration.config import load_config
from clozeline.errors import CheckpointError, ConfigurationError, reading_run
from clozeline.files import file_hash
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import FrameRecord, ObjectiveRecord, TokenizerRecord
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.train.configuration.checkpoint import StepChoice
from clozeline.train.data.sets.recorded_sets import (
    SETS_FILE,
    TOKENIZER_FOLDER,
    RecordedSet,
    read_sets,
    tokenizer_of_run,
)

if TYPE_CHECKING:  # they import torch, which a command without a model does not need
    from torch import Tensor

    from clozeline.model.build import Model
    from clozeline.model.checkpoints import Checkpoint
    from clozeline.model.compression.token_rules import RuleRecord
    from clozeline.train.checkpoint.state import TrainState
    from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
    from clozeline.train.configuration.config import TrainConfig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, and what its training recorded, if it was trained here."""

    folder: Path
    checkpoint: Checkpoint
    """configuration, special ids and weights by name: fp32 masters or their averages of a run; with
    an adapter those of its base model, too"""
    recorded: tuple[RecordedSet, ...] = ()
    """training sets, in the order of the phases; empty: a model folder that came from elsewhere"""
    config: TrainConfig | None = None
    """configuration of the training; None: a model folder"""
    stored: StoredCheckpoint | None = None
    """checkpoint of the training; None: a model folder"""
    token_rule: RuleRecord = field(default_factory=dict)
    """rule by which the model drops tokens; empty: none"""

    @staticmethod
    def open(
        folder: Path, step: StepChoice = None, *, key: str = "", quantized: bool = True
    ) -> TrainedModel:
        """Find, verify and read a run, or a folder with a model.

        The shard sets of a run are not read, and DeepSpeed is not needed, whichever ZeRO stage
        wrote the checkpoint.

        Args:
            folder: run directory, folder of `import-model` or `compress`, or one of transformers.
            step: of the checkpoint; best: the one with the lowest held-out loss; None: the one to
                resume from.
            key: of the configuration that names the folder, for messages.
            quantized: read integer weights, with which a model computes; False: refuse them,
                because weights are trained or converted.

        Raises:
            ConfigurationError: it is neither, or holds no such checkpoint; or the base model of its
                adapter is missing.
            CheckpointError: the checkpoint is damaged, or of another model than config.yaml
                describes.
            WeightsError: the weights of a model folder are damaged, or of another model.
        """
        folder = folder.expanduser()
        if step is not None or any(
            (folder / name).exists() for name in ("config.yaml", "checkpoints")
        ):
            return _open_run(folder, step)
        return _open_folder(folder, key, quantized=quantized)

    @property
    def sets(self) -> tuple[RecordedSet, ...]:
        """The training sets; ConfigurationError for a model folder without them."""
        if not self.recorded:
            raise ConfigurationError(
                f"{self.folder}: expected a run, or what compress made of one: {SETS_FILE} says "
                "what rows it was "
                "trained on, and so how a text must start; got a model folder without it"
            )
        return self.recorded

    @property
    def objectives(self) -> list[ObjectiveRecord]:
        """The objectives of its training, in all phases; of a model folder that came from elsewhere, that of its heads.

        A decoder whose tokenizer has a start token of its own reads it first; any other text
        follows the end of one.
        """
        config = self.checkpoint.config
        if self.recorded or config.architecture == "encoder_decoder":
            return [recorded.objective for recorded in self.sets]
        specials = self.tokenizer.vocabulary.specials
        heads = tuple(config.targets.values())
        return [
            ObjectiveRecord(
                name="causal_lm" if config.architecture == "decoder" else "masked_lm",
                label=", ".join(heads),
                options={"add_bos": specials.get("bos") not in (None, specials.get("eos"))},
                architecture=config.architecture,  # type: ignore[arg-type]
                heads=heads,
                frame=FrameRecord(),
            )
        ]

    @property
    def predicts_next(self) -> bool:
        """Whether a masked token is predicted at the position before it."""
        return any(
            recorded.objective.frame.predict_from == "previous" for recorded in self.recorded
        )

    def require_config(self) -> TrainConfig:
        """Return the configuration of the training; ConfigurationError for a model folder."""
        if self.config is None:
            raise ConfigurationError(
                f"{self.folder}: is a model folder, which names no sets: name one (task=FOLDER, "
                "data=SET), or a run"
            )
        return self.config

    @property
    def step(self) -> int:
        """Steps of its training; 0 for a model folder."""
        return 0 if self.stored is None else self.stored.state.step

    @cached_property
    def digest(self) -> str:
        """xxh3-128 (hex) of checkpoint.json, which holds the hashes of its parts; of a folder's files of weights."""
        if self.stored is not None:
            return self.stored.digest
        hashes = [file_hash(path) for path in self.checkpoint.files]
        return hashes[0] if len(hashes) == 1 else xxh3_128("".join(hashes)).hexdigest()

    @property
    def provenance(self) -> dict[str, object]:
        """What a file that is made with the model records: its step, and the hashes of checkpoint and tokenizer."""
        fingerprint = self.tokenizer.vocabulary.fingerprint
        return {"step": self.step, "checkpoint": self.digest, "tokenizer": fingerprint}

    @cached_property
    def weights_digest(self) -> str:
        """xxh3-128 (hex) of names, shapes and values of the weights, the same for all files that hold them."""
        return digest_of(self.checkpoint.tensors, self.checkpoint.tensors)

    @cached_property
    def tokenizer_folder(self) -> Path | None:
        """Folder of its tokenizer in our format; None: it was not copied with the model."""
        from clozeline.model.checkpoints import find_imported_tokenizer

        if self.stored is not None:
            with suppress(ConfigurationError):
                return tokenizer_of_run(self.folder, self.recorded[0])
            return None
        beside = self.folder / TOKENIZER_FOLDER
        return find_imported_tokenizer(self.folder) or (
            beside if (beside / VOCABULARY_FILE).is_file() else None
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; ConfigurationError without one."""
        if self.tokenizer_folder is not None:
            return load_tokenizer(self.tokenizer_folder)
        if self.stored is not None:
            return load_tokenizer(
                tokenizer_of_run(self.folder, self.recorded[0])
            )  # raises, and says where it looked
        raise ConfigurationError(
            f"{self.folder}: expected a run, or a folder in our format with its tokenizer; import "
            "the folder with "
            "clozeline import-model, and give that"
        )

    def masked_row_ids(self, purpose: str) -> tuple[int, int, int]:
        """Return the ids of [CLS], [SEP] and [MASK] for rows of a masked LM; `purpose` asks for them, for messages."""
        vocabulary = self.tokenizer.vocabulary
        return (
            vocabulary.id_of("cls", purpose),
            vocabulary.id_of("sep", purpose),
            vocabulary.id_of("mask", purpose),
        )

    @cached_property
    def model(self) -> Model:
        """The model on the weights of `checkpoint`, in evaluation mode, with the rule by which it drops tokens."""
        from clozeline.model.checkpoints import build_checkpoint
        from clozeline.model.compression.token_pruning import prune_by

        model = build_checkpoint(self.checkpoint)
        if model.family.reads_characters:
            model.family.set_token_bytes(
                token_bytes(self.tokenizer), self.sets[0].tokenizer.special_ids
            )
        return prune_by(model, self.token_rule)

    @property
    def max_length(self) -> int:
        """Maximum tokens per row, special tokens included.

        The size of its position table; without one, what its export declares: `position.maximum`,
        or the longest training row.
        """
        limit = self.model.position_limit
        if limit is not None:
            return limit
        return max(
            [
                self.model.config.position.maximum,
                *(recorded.max_length for recorded in self.recorded),
            ]
        )

    def row_length(self, asked: int | None, key: str) -> int:
        """Return the most tokens of a row: as `key` asks, by default `max_length`.

        ConfigurationError for more than the position table has.
        """
        limit = self.model.position_limit
        if asked is not None and limit is not None and asked > limit:
            raise ConfigurationError(f"{key}: the position table has room for {limit}, got {asked}")
        return asked or self.max_length

    def require_same_tokenizer(self, shards: ShardSet) -> None:
        """Raise ConfigurationError for a set made with another tokenizer."""
        ours = self.tokenizer.vocabulary.fingerprint
        theirs = shards.manifest.tokenizer.fingerprint
        if ours != theirs:
            raise ConfigurationError(
                f"{shards.path}: was made with the tokenizer {theirs[:16]}, the run with "
                f"{ours[:16]}: make it with the "
                "run's tokenizer"
            )


def _open_run(folder: Path, step: StepChoice) -> TrainedModel:
    from clozeline.model.checkpoints import Checkpoint, parameter_shapes
    from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint

    stored = StoredCheckpoint.find(folder, step)
    config = read_config(folder, stored.state)
    sets = read_sets(folder)
    facts = sets[0].tokenizer
    weights = stored.read_weights()
    shapes = parameter_shapes(config.model, facts.vocab_size)
    trained: tuple[str, ...] = ()
    if config.model.adapter is not None:
        # only parameters of heads are trained with an adapter
        trained = tuple(
            name for name in stored.index.parameters if not name.startswith("adapters.")
        )
        weights |= _read_base(
            stored, config, {name: shapes[name] for name in shapes.keys() - weights}
        )
    if shapes != {name: tensor.shape for name, tensor in weights.items()}:
        raise CheckpointError(
            f"{stored.folder}: holds another model than {folder / 'config.yaml'} describes"
        )
    ids = token_ids(facts, sets[0].objective)
    checkpoint = Checkpoint(config.model, facts.vocab_size, weights, ids, None, (), trained=trained)
    return TrainedModel(folder, checkpoint, sets, config, stored, stored.state.token_rule)


def _open_folder(folder: Path, key: str, *, quantized: bool) -> TrainedModel:
    from clozeline.model.checkpoints import IMPORT_RECORD, MODEL, read_checkpoint

    if not any((folder / name).is_file() for name in (MODEL, IMPORT_RECORD, "config.json")):
        remedy = "give the directory of a run, or one with a model"
        if runs := sorted(folder.glob("*/checkpoints")) or sorted(
            folder.glob("*/*/checkpoints")
        ):  # as of finetune
            remedy = f"it holds runs: choose one, such as {runs[0].parent}"
        named = f"{key}: " if key else ""
        raise ConfigurationError(f"{named}{folder}: not a run or model directory; {remedy}")
    recorded = read_sets(folder) if (folder / SETS_FILE).is_file() else ()
    return TrainedModel(folder, read_checkpoint(folder, quantized=quantized), recorded)


def token_ids(tokenizer: TokenizerRecord, objective: ObjectiveRecord) -> dict[str, Any]:
    """Return the special ids that a model is exported with, by their keys of config.json.

    Where each row has a start of its own, callers of `generate` give it.
    """
    ids: dict[str, object] = {
        f"{name}_token_id": number for name, number in tokenizer.special_ids.items()
    }
    if isinstance(start := objective.frame.decoder_start, int):
        ids["decoder_start_token_id"] = start
    return ids


def _read_base(
    stored: StoredCheckpoint, config: TrainConfig, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Tensor]:
    """Return the weights of the base model under an adapter, as far as the checkpoint lacks them."""
    import torch

    source = config.model.init_from
    if source is None or not source.expanduser().is_dir():
        base = f"its base model {source} is missing: copy it back"
        raise ConfigurationError(f"{stored.folder}: holds an adapter alone, and {base}")
    tensors = TrainedModel.open(source, quantized=False).checkpoint.tensors
    names = [name for name in shapes if name in tensors]
    refuse_other_base(source, stored.state.base, digest_of(tensors, names))
    weights = {name: torch.zeros(*shapes[name]) for name in names}
    for name, weight in weights.items():  # a table may have other padding here
        rows = min(len(tensors[name]), len(weight))
        weight[:rows] = tensors[name][:rows]
    return weights


def read_config(folder: Path, saved: TrainState | None = None) -> TrainConfig:
    """Read config.yaml of a run directory; its model must be that of a `saved` state."""
    from clozeline.train.checkpoint.state import find_changes
    from clozeline.train.configuration.config import TrainConfig, frozen

    path = folder / "config.yaml"
    with reading_run(path):
        config: TrainConfig = load_config(TrainConfig, path)
        if saved is not None and saved.frozen:
            changes = find_changes(
                saved, replace(saved, frozen=frozen(config)), config.checkpoint.allow_changed
            )
            for change in changes:
                if change.startswith("model.") and not change.startswith("model.dropout."):
                    raise ConfigurationError(
                        f"{path}: not the model of the checkpoint of step {saved.step}: {change}"
                    )
    return config


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """Return the UTF-8 of each token's piece, for families that read characters."""
    return [tokenizer.piece(token).encode() for token in range(tokenizer.vocabulary.size)]


def refuse_other_base(source: Path, expected: str, digest: str) -> None:
    """Refuse a source that is not the one that a run started from."""
    if expected != digest:
        raise ConfigurationError(
            f"model.init_from: {source}: the run started from weights with digest {expected}, "
            "these have "
            f"{digest}: a run that was resumed, or another model; give the weights that it "
            "started from"
        )


def digest_of(tensors: Mapping[str, Tensor], names: Iterable[str]) -> str:
    """Return the xxh3-128 (hex) of names, shapes and fp32 values, sorted by name."""
    digest = xxh3_128()
    for name in sorted(names):
        tensor = tensors[name]
        digest.update(f"{name} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().float().contiguous().numpy().data)
    return digest.hexdigest()
