"""Find, verify and read a trained model: a run at one of its checkpoints, or a model folder.

Evaluation, prediction, generation, export, compression, teaching and initial weights begin here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast
from weakref import finalize

from tokenizers import Tokenizer as LibraryTokenizer
from xxhash import xxh3_128

from clozeline.configuration.config import load_config
from clozeline.errors import (
    CheckpointError,
    ConfigurationError,
    IntegrityError,
    reading_run,
)
from clozeline.files import file_hash
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import ObjectiveRecord, TokenizerRecord
from clozeline.pipeline.tokenize.published.folders import SOURCE, find_clozeline_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.train.configuration.checkpoint import StepChoice
from clozeline.train.data.sets.recorded_sets import (
    SETS_FILE,
    RecordedSet,
    add_meanings,
    fingerprint_of,
    read_sets,
    tokenizer_of_run,
)
from clozeline.train.data.sets.token_ids import KnownIds
from clozeline.train.registries import STATE_KEYS

if TYPE_CHECKING:  # they import torch, which a command without a model does not need
    from torch import Tensor

    from clozeline.model.build import Model
    from clozeline.model.checkpoints.checkpoint import Checkpoint
    from clozeline.train.checkpoint.state import TrainState
    from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
    from clozeline.train.configuration.config import TrainConfig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, with the records of its training if it was trained here."""

    folder: Path
    checkpoint: Checkpoint
    """configuration, special ids and weights by name: of a run the fp32 masters or their averages;
    with an adapter also the weights of its base model"""
    recorded: tuple[RecordedSet, ...] = ()
    """training sets, in the order of the phases; empty for a third-party model folder"""
    config: TrainConfig | None = None
    """configuration of the training; None for a model folder"""
    stored: StoredCheckpoint | None = None
    """checkpoint of the training; None for a model folder"""
    added: Mapping[str, Any] = field(default_factory=dict)
    """values of keys of extensions in the state of the checkpoint"""

    @staticmethod
    def open(
        folder: Path, step: StepChoice = None, *, key: str = "", quantized: bool = True
    ) -> TrainedModel:
        """Find, verify and read a run or a model folder.

        The shard sets of a run are not read, and DeepSpeed is not needed at any ZeRO stage.

        Args:
            folder: run directory, folder of ours with a model, or one that an extension reads.
            step: step of the checkpoint; best: the one with the lowest held-out loss; None: the one
                to resume from.
            key: configuration key that names the folder, for messages.
            quantized: read integer weights, to compute with them; False: refuse them, because the
                weights are to be trained or converted.

        Raises:
            ConfigurationError: it is neither a run nor a model folder, or has no such checkpoint,
                or the base model of its adapter is missing.
            CheckpointError: the checkpoint is damaged, or of another model than in config.yaml.
            WeightsError: the weights of a model folder are damaged, or of another model.
        """
        folder = folder.expanduser()
        runs = list(folder.glob("*/checkpoints"))
        if len(runs) == 1 and (folder / "train.yaml").is_file():  # as `clozeline new` wrote it
            folder = runs[0].parent
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
                f"{self.folder} has no {SETS_FILE}, which describes its training rows and how a "
                "text must start: give a run, or a folder that a command made of a run"
            )
        return self.recorded

    @property
    def objectives(self) -> list[ObjectiveRecord]:
        """The objectives of its training, in all phases.

        A third-party model folder has the objective of its heads. A decoder whose tokenizer has a
        start token that differs from its end token reads it first; an encoder-decoder reads a text
        as the publisher's tokenizer writes it.
        """
        config = self.checkpoint.config
        if self.recorded:
            return [recorded.objective for recorded in self.sets]
        specials = self.tokenizer.vocabulary.specials
        heads = tuple(config.targets.values())
        decoder = config.architecture == "decoder"
        ids = {role: (token,) for role, token in specials.items()}
        form = (
            RowForm(
                predicts_next=True,
                head=() if ids.get("bos") == ids.get("eos") else ids.get("bos", ()),
                separator=specials.get("eos"),
            )
            if decoder
            else RowForm(head=ids.get("cls", ()), tail=ids.get("sep", ()))
        )
        if config.architecture == "encoder_decoder":
            form = self._published_form()
        return [
            ObjectiveRecord(
                name="causal_lm" if decoder else "masked_lm",
                label=", ".join(heads),
                architecture=config.architecture,  # type: ignore[arg-type]
                heads=heads,
                frame=form,
            )
        ]

    def _published_form(self) -> RowForm:
        start = self.checkpoint.token_ids.get("decoder_start_token_id")
        path = cast(Path, self.tokenizer.vocabulary.folder) / SOURCE / "tokenizer.json"
        if start is None or not path.is_file():
            return self.sets[0].objective.frame  # tells that there is none
        encoded = LibraryTokenizer.from_file(str(path)).encode("a")
        text = encoded.special_tokens_mask
        first = text.index(0)
        last = len(text) - text[::-1].index(0)
        return RowForm(
            decoder_start=start, head=tuple(encoded.ids[:first]), tail=tuple(encoded.ids[last:])
        )

    @property
    def predicts_next(self) -> bool:
        """Whether a masked token is predicted at the position before it."""
        return any(
            recorded.objective.frame.predict_from == "previous" for recorded in self.recorded
        )

    @property
    def reads_prefix(self) -> bool:
        """Whether its decoder reads the start of a row in both directions (prefix LM)."""
        return bool(self.recorded) and "prefix_length" in self.recorded[0].columns

    def require_config(self, remedy: str = "name a set by data=SET, or give a run") -> TrainConfig:
        """Return the configuration of the training; ConfigurationError for a model folder."""
        if self.config is None:
            raise ConfigurationError(
                f"{self.folder} is a model folder without the configuration of a run: {remedy}"
            )
        return self.config

    @property
    def step(self) -> int:
        """Steps of its training; 0 for a model folder."""
        return 0 if self.stored is None else self.stored.state.step

    @cached_property
    def digest(self) -> str:
        """xxh3-128 (hex) of checkpoint.json, or of the weight files of a model folder."""
        if self.stored is not None:
            return self.stored.digest
        hashes = [file_hash(path) for path in self.checkpoint.files]
        return hashes[0] if len(hashes) == 1 else xxh3_128("".join(hashes).encode()).hexdigest()

    def refuse_other_meanings(self, shards: ShardSet, *, labels: bool = True) -> None:
        """Refuse a set whose numbers, such as languages and classes, mean others to the weights.

        `labels`: also compare the classes of labeled rows.
        """
        known = {} if self.stored is None else self.stored.state.meanings
        recorded = () if known else self.recorded
        languages = self.checkpoint.config.languages
        add_meanings(known, [*recorded, shards.manifest], languages, self.folder, labels=labels)

    @property
    def provenance(self) -> dict[str, object]:
        """Step, and hashes of checkpoint and tokenizer, for files that are made with the model."""
        fingerprint = self.tokenizer.vocabulary.fingerprint
        return {"step": self.step, "checkpoint": self.digest, "tokenizer": fingerprint}

    @cached_property
    def weights_digest(self) -> str:
        """xxh3-128 (hex) of names, shapes and values of the weights, in whatever file they are."""
        return digest_of(self.checkpoint.tensors, self.checkpoint.tensors)

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the tokenizer that it was trained with; None: it was not recorded."""
        if self.stored is not None:
            return self.ids.fingerprint
        recorded = [recorded.tokenizer.fingerprint for recorded in self.recorded]
        return recorded[0] if recorded else self.checkpoint.fingerprint

    @cached_property
    def ids(self) -> KnownIds:
        """The ids of its weights, to compare them with those of a set."""
        if self.stored is not None:
            return ids_of_run(self.stored)
        return KnownIds(self.folder, self.fingerprint, lambda: self.tokenizer)

    @cached_property
    def tokenizer_folder(self) -> Path | None:
        """Folder of its tokenizer in our format; None if it was not copied with the model.

        Raises:
            IntegrityError: the folder has another tokenizer than the one of the training.
        """
        if self.stored is not None:
            with suppress(ConfigurationError):
                return tokenizer_of_run(self.folder, self.recorded[0], self.fingerprint or "")
            return None
        found = find_clozeline_tokenizer(self.folder)
        if found is None:
            return None
        actual = fingerprint_of(found.folder)
        if (expected := self.fingerprint) not in (None, actual):
            raise IntegrityError(
                f"{found.folder}: expected the tokenizer {expected} of the training, got {actual}: "
                "with it, ids mean other pieces; copy the tokenizer of the model back, or make the "
                "folder again"
            )
        return found.folder

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, also of a published folder; ConfigurationError without one."""
        if self.stored is not None:
            return self.ids.load()
        if self.tokenizer_folder is not None:
            return load_tokenizer(self.tokenizer_folder)
        if self.recorded:
            raise ConfigurationError(
                f"{self.folder} has lost its tokenizer: copy the folder again, with all its files"
            )
        imported = mkdtemp()  # the vocabulary reads the publisher's files there later
        finalize(self, rmtree, imported)
        return import_tokenizer(self.folder, Path(imported))

    def masked_row_ids(self, purpose: str) -> tuple[int, int, int]:
        """Return the ids of [CLS], [SEP] and [MASK]; `purpose` says what for, in messages."""
        vocabulary = self.tokenizer.vocabulary
        return (
            vocabulary.id_of("cls", purpose),
            vocabulary.id_of("sep", purpose),
            vocabulary.id_of("mask", purpose),
        )

    @cached_property
    def model(self) -> Model:
        """The model with the weights of `checkpoint`, in evaluation mode."""
        from clozeline.model.checkpoints.checkpoint import build_checkpoint

        model = build_checkpoint(self.checkpoint)
        if model.family.reads_characters:
            model.family.set_token_bytes(
                token_bytes(self.tokenizer), self.sets[0].tokenizer.special_ids
            )
        for name, value in self.added.items():
            model = STATE_KEYS.load_class(name).restore(model, value)
        return model

    @property
    def max_length(self) -> int:
        """Maximum tokens per row, special tokens included.

        This is the size of its position table. Without a table it is `position.maximum`, as in its
        export, or the longest training row.
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

        Raises:
            ConfigurationError: the position table is smaller.
        """
        limit = self.model.position_limit
        if asked is not None and limit is not None and asked > limit:
            raise ConfigurationError(f"{key}: the position table has {limit} entries, got {asked}")
        return asked or self.max_length


def _open_run(folder: Path, step: StepChoice) -> TrainedModel:
    from clozeline.model.checkpoints.checkpoint import Checkpoint, parameter_shapes
    from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint

    saved_run = StoredCheckpoint.find(folder, step)
    config = read_config(folder, saved_run.state)
    sets = read_sets(folder)
    tokenizer = sets[0].tokenizer

    # read the weights, and those of the base model if the run trained an adapter
    weights = saved_run.read_weights()
    shapes = parameter_shapes(config.model, tokenizer.vocab_size)
    trained: tuple[str, ...] = ()

    if config.model.adapter is not None:
        # only parameters of heads are trained with an adapter
        trained = tuple(
            name for name in saved_run.index.parameters if not name.startswith("adapters.")
        )
        missing = {name: shapes[name] for name in shapes.keys() - weights}
        weights |= _read_base(saved_run, config.model.init_from, missing)

    if shapes != {name: tensor.shape for name, tensor in weights.items()}:
        raise CheckpointError(f"{saved_run.folder} has another model than {folder / 'config.yaml'}")

    # special ids
    ids = token_ids(tokenizer, sets[0].objective)
    checkpoint = Checkpoint(
        config.model, tokenizer.vocab_size, weights, ids, None, (), trained=trained
    )
    return TrainedModel(folder, checkpoint, sets, config, saved_run, saved_run.state.added)


def _open_folder(folder: Path, key: str, *, quantized: bool) -> TrainedModel:
    if not folder.is_dir():
        where = f"{key}: {folder}" if key else folder
        raise ConfigurationError(f"{where}: not a run or model directory: no such folder")
    from clozeline.model.checkpoints.reading import read_checkpoint

    checkpoint = read_checkpoint(folder, key=key, quantized=quantized)
    recorded = read_sets(folder) if (folder / SETS_FILE).is_file() else ()
    return TrainedModel(folder, checkpoint, recorded)


def ids_of_run(stored: StoredCheckpoint) -> KnownIds:
    """Return the ids of the weights in a checkpoint of a run.

    A checkpoint without them has those of the sets in sets.json.
    """
    run = stored.folder.parents[1]
    fingerprint = stored.state.tokenizer or read_sets(run)[0].tokenizer.fingerprint

    def load() -> Tokenizer:
        return load_tokenizer(tokenizer_of_run(run, read_sets(run)[0], fingerprint))

    return KnownIds(run, fingerprint, load)


def token_ids(tokenizer: TokenizerRecord, objective: ObjectiveRecord) -> dict[str, Any]:
    """Return the special ids of an exported model, by their keys in config.json.

    If rows start differently, callers of `generate` give the start.
    """
    ids: dict[str, object] = {
        f"{name}_token_id": number for name, number in tokenizer.special_ids.items()
    }
    if isinstance(start := objective.frame.decoder_start, int):
        ids["decoder_start_token_id"] = start
    return ids


def _read_base(
    stored: StoredCheckpoint, source: Path | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Tensor]:
    """Return the weights of the base model under an adapter that the checkpoint does not have."""
    import torch

    # open the base model, and compare it with the one of the training
    if source is None or not source.expanduser().is_dir():
        raise ConfigurationError(
            f"{stored.folder} has only an adapter, and its base model {source} is missing: copy it "
            "back"
        )

    tensors = TrainedModel.open(source, quantized=False).checkpoint.tensors
    names = [name for name in shapes if name in tensors]
    refuse_other_base(source, stored.state.base, digest_of(tensors, names))

    # a token table may have other padding here
    weights = {name: torch.zeros(*shapes[name]) for name in names}
    for name, weight in weights.items():
        rows = min(len(tensors[name]), len(weight))
        weight[:rows] = tensors[name][:rows]

    return weights


def read_config(folder: Path, saved: TrainState | None = None) -> TrainConfig:
    """Read config.yaml of a run directory; its model must be the model of a `saved` state."""
    from clozeline.train.checkpoint.state import find_changes
    from clozeline.train.configuration.config import TrainConfig, frozen

    path = folder / "config.yaml"
    with reading_run(path):
        config: TrainConfig = load_config(TrainConfig, path)
        if saved is not None and saved.frozen:
            now = replace(saved, frozen=frozen(config))
            changes = find_changes(saved, now, config.checkpoint.allow_changed, now.frozen)
            for change in changes:
                if change.startswith("model.") and not change.startswith("model.dropout."):
                    raise ConfigurationError(
                        f"{path} has another model than the checkpoint of step {saved.step}: "
                        f"{change}"
                    )

    return config


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """Return the UTF-8 of each token's piece, for families that read characters."""
    return [tokenizer.piece(token).encode() for token in range(tokenizer.vocabulary.size)]


def refuse_other_base(source: Path, expected: str, digest: str) -> None:
    """Refuse a source whose weights are not those that a run started from."""
    if expected != digest:
        raise ConfigurationError(
            f"model.init_from: {source}: the run started from weights with digest {expected}, "
            f"these have {digest}: it is another model, or was trained further; give the same "
            "weights"
        )


def digest_of(tensors: Mapping[str, Tensor], names: Iterable[str]) -> str:
    """Return the xxh3-128 (hex) of names, shapes and fp32 values, sorted by name."""
    digest = xxh3_128()
    for name in sorted(names):
        tensor = tensors[name]
        digest.update(f"{name} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().float().contiguous().numpy().data)
    return digest.hexdigest()
