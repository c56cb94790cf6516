"""Opening the shard sets of a run, and the checks that shards, heads and model belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest, ShardSet, open_shards
from pipeline.shards.manifest import manifest_path
from train.config import TrainConfig

__all__ = ["Datasets", "open_datasets"]


@dataclass(frozen=True)
class Datasets:
    """The sets of a run, checked against its model."""

    train: ShardSet
    heldout: dict[str, ShardSet]


def open_datasets(config: TrainConfig) -> Datasets:
    """Open the training set and the held-out sets.

    Raises:
        StorageError: a manifest that the configuration names is missing.
        ManifestError: a manifest, its index and its files contradict each other.
        ConfigurationError: a set does not fit the model or the training set; the message says what does.
    """
    train = open_shards(config.data.shards)
    _check(train, config, "data.shards")
    heldout = {name: open_shards(path) for name, path in _heldout_paths(config).items()}
    for name, shards in heldout.items():
        key = f"data.heldout ({name})"
        _check(shards, config, key)
        ours, theirs = train.manifest.tokenizer.fingerprint, shards.manifest.tokenizer.fingerprint
        if ours != theirs:
            raise ConfigurationError(
                f"{key}: {shards.path} was made with tokenizer {theirs[:16]}, the training set {train.path} with "
                f"{ours[:16]}: make both with one tokenizer"
            )
    return Datasets(train, heldout)


def _heldout_paths(config: TrainConfig) -> dict[str, Path]:
    given = config.data.heldout
    if isinstance(given, dict):
        return given
    if given is not None:
        return {"heldout": given}
    sibling = manifest_path(config.data.shards).parent.parent / "heldout" / "manifest.json"
    return {"heldout": sibling} if sibling.exists() else {}


def _check(shards: ShardSet, config: TrainConfig, key: str) -> None:
    manifest, model = shards.manifest, config.model
    objective = manifest.objective
    if manifest.kind != "examples" or objective is None:
        raise ConfigurationError(
            f"{key}: {shards.path} holds {manifest.kind}, expected examples: run `python -m pipeline.corrupt` on it"
        )
    if not len(shards):
        raise ConfigurationError(f"{key}: {shards.path} holds no rows: give the pipeline more documents")
    if objective.architecture != model.family:
        raise ConfigurationError(
            f"model.family: {model.family} cannot be trained on {shards.path}, whose objective {objective.name} is "
            f"for the architecture {objective.architecture}"
        )
    if missing := sorted(set(model.heads) - set(objective.heads)):
        raise ConfigurationError(
            f"model.heads: {missing[0]} cannot be trained on {shards.path}, whose objective {objective.name} serves "
            f"{', '.join(objective.heads)}"
        )
    _check_lengths(manifest, config, shards.path)


def _check_lengths(manifest: Manifest, config: TrainConfig, path: Path) -> None:
    position = config.model.position
    if position.kind == "learned" and manifest.max_length > position.maximum:
        raise ConfigurationError(
            f"model.position.maximum: rows of {path} have up to {manifest.max_length} tokens, the model has "
            f"{position.maximum} places; set it to {manifest.max_length} or group into shorter rows"
        )
