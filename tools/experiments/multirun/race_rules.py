"""Read a race and its entries, and check each training: what is fixed for all, and what an entry may choose."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.configuration.config import config_class, load_config, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.schedule import check_schedule

HEAD: Final = "masked_lm"
"""The only head that entries train."""
HELDOUT: Final = "heldout"
"""Name of the held-out set in the metrics."""
_HALVES: Final = "halves"
_RACE: Final = "race.yaml"
_RECIPE: Final = "pipeline.yaml"
_FIXED: Final = (
    *("output", "resume", "branch_from", "seed", "data.seed", "data.heldout", "data.store", "data.on_damaged"),
    *("evaluate", "early_stop", "checkpoint", "log", "profile", "model.init_from", "init_parts", "data.ignore"),
)
"""Keys of a training that an entry must not set: they are fixed by the race, or would load pretrained weights."""

_ABSENT: Final = object()
Positive = Annotated[int, Field(ge=1)]


@config_class
class Race:
    """Properties of a race that hold for all entries."""

    title: str
    """title of the page"""
    baseline: str
    """entry that the others are compared with; what all its seeds reach is the target"""
    cores: Positive
    """maximum of ranks times threads"""
    every: Positive
    """steps between evaluations"""
    seeds: Positive
    """trainings of the baseline and of each entry, with the seeds 0, 1, ..."""
    heldout: str
    """held-out set, by its folder in the pipeline output: one half judges, the other is for tuning"""
    sets: dict[str, str]
    """digest of each set that an entry may train on, and of the halves of the held-out set, by folder"""
    made_with: str
    """Python version whose documentation gave these digests"""


@config_class
class Entry:
    """A training that takes part in a race."""

    said: str
    """difference from the entry it is based on"""
    ranks: Positive = 1
    """processes"""
    threads: Positive = 1
    """threads per process"""
    train: dict[str, Any]
    """the training; `data.shards`, also of phases, are names of sets"""


def load_race(folder: Path) -> tuple[Race, dict[str, Entry]]:
    """Read a race and its entries: all files next to race.yaml and pipeline.yaml."""
    race = load_config(Race, folder / _RACE)
    files = sorted(path for path in folder.glob("*.yaml") if path.name not in (_RACE, _RECIPE))
    entries = {path.stem: load_config(Entry, path) for path in files}
    if race.baseline not in entries:
        raise ConfigurationError(
            f"{folder / _RACE}: baseline: expected an entry, of which there are {', '.join(entries) or 'none'}, got "
            f"{race.baseline!r}"
        )
    return race, entries


def half_path(half: str) -> str:
    """Return the folder of a half of the held-out set, relative to the pipeline output."""
    return f"{_HALVES}/{half}"


def find_changed_sets(race: Race, sets: Path) -> dict[str, str]:
    """Return the digests of the sets in the pipeline output that differ from those of the records."""
    digests = {name: open_shards(sets / name).digest for name in race.sets}
    return {name: digest for name, digest in digests.items() if digest != race.sets[name]}


def training_of(
    race: Race, entry: Entry, name: str, sets: Path, output: Path, seed: int, half: str, target: float | None
) -> dict[str, Any]:
    """Return the validated configuration of a training.

    `target` is the held-out loss in nats that ends the training; None: run all steps.
    """
    if entry.ranks * entry.threads > race.cores:
        raise ConfigurationError(
            f"{name}: expected at most {race.cores} cores, got {entry.ranks} ranks of {entry.threads} threads"
        )
    for key in _FIXED:
        inside: Any = entry.train
        for part in key.split("."):
            inside = inside.get(part, _ABSENT) if isinstance(inside, Mapping) else _ABSENT
        if inside is not _ABSENT:
            raise ConfigurationError(f"{name}: train.{key}: is fixed by the rules of the race: remove the key")
    config = deepcopy(entry.train) | {"output": str(output)}
    validated: TrainConfig = validate(TrainConfig, config, name, "train.")
    if validated.steps != "auto":
        check_schedule(validated.schedule.options, validated.schedule.options.steps or validated.steps)
    heads = validated.model.heads
    if set(heads) != {HEAD} or heads[HEAD].normalise != "label":
        raise ConfigurationError(
            f"{name}: train.model.heads: expected {HEAD} alone, with equal weights for all labels, got "
            + ", ".join(f"{head} normalised by {options.normalise}" for head, options in heads.items())
        )
    # paths of the training sets, which the entry gives by name
    data, known = config["data"], [set_name for set_name in race.sets if not set_name.startswith(f"{_HALVES}/")]
    for part in (data, *data.get("phases", [])):
        if "shards" in part:
            chosen = [part["shards"]] if isinstance(part["shards"], str) else part["shards"]
            if unknown := [set_name for set_name in chosen if set_name not in known]:
                raise ConfigurationError(f"{name}: train.data: expected sets of {', '.join(known)}, got {unknown[0]!r}")
            part["shards"] = [str(sets / set_name) for set_name in chosen]
    data |= {"heldout": {HELDOUT: str(sets / half_path(half))}, "seed": seed}
    if target is not None:
        config["early_stop"] = {"metric": f"{HELDOUT}/losses/{HEAD}", "target": target, "patience": 2**31}
    fixed = {"seed": seed, "evaluate": {"every": race.every}, "checkpoint": {"every": None, "keep_last": 1}}
    return config | fixed | {"log": {"every": 1, "tensorboard": False}}
