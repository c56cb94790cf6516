"""Read a study and its variants, and plan each training to take the operations that the study allows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic.dataclasses import dataclass as configuration

from clozeline.model.build import build_model
from clozeline.configuration.config import STRICT, load_config, validate
from clozeline.configuration.strict_yaml import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.inference.text_likelihoods import Score
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.cost_estimate import estimate_cost
from clozeline.train.data.sets.datasets import open_datasets

_STUDY: Final = "study.yaml"
_TRAIN: Final = "train.yaml"
_VARIANTS: Final = "variants"


@configuration(frozen=True, kw_only=True, config=STRICT)
class Ordering:
    """A published claim: one variant is better than another."""

    measure: str
    """measure that it is about"""
    lower: str
    """variant with the lower loss"""
    higher: str
    """variant with the higher loss"""
    said: str
    """the claim and its source"""


@configuration(frozen=True, kw_only=True, config=STRICT)
class Study:
    """Facts of a study that hold for all variants."""

    title: str
    """title of the page"""
    flops: Annotated[float, Field(gt=0)]
    """operations of the training of each run, forward and backward"""
    seeds: Annotated[int, Field(ge=1)] = 3
    """runs of each variant; one leaves the chance of seeds unknown, and every verdict says so"""
    evaluations: Annotated[int, Field(ge=1)] = 8
    """evaluations of a run"""
    orderings: list[Ordering] = Field(default_factory=list)
    """claims to judge"""


@configuration(frozen=True, kw_only=True, config=STRICT)
class Part:
    """A part of a training: sets, and its share of the arithmetic."""

    sets: dict[str, Annotated[float, Field(gt=0)]]
    """weight of each set, by its folder under `corrupt`"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of the run's operations; those of all parts are 1 together"""


@configuration(frozen=True, kw_only=True, config=STRICT)
class Variant:
    """A variant of the training."""

    phases: list[Part]
    """parts in their order"""
    measures: dict[str, str]
    """measure → set whose held-out rows it is computed on: those that the training prepared the model for"""
    pairs: list[Score] = Field(default_factory=list)
    """scores of minimal pairs, where pairs are given"""
    train: dict[str, Any] = Field(default_factory=dict)
    """keys that differ from the study's train.yaml"""

    def __post_init__(self) -> None:
        if abs(sum(part.share for part in self.phases) - 1) > 1e-9:
            raise ValueError(f"phases: expected shares that are 1 together, got {[part.share for part in self.phases]}")


@dataclass(frozen=True)
class Plan:
    """One run, ready to begin.

    Args:
        config: its configuration, as plain data.
        steps: of each part.
        flops: of a step of each part.
    """

    config: dict[str, Any]
    steps: tuple[int, ...]
    flops: tuple[float, ...]

    @property
    def total(self) -> float:
        """Operations of the run."""
        return sum(steps * each for steps, each in zip(self.steps, self.flops, strict=True))


def load_study(folder: Path) -> tuple[Study, dict[str, Variant]]:
    """Read a study and its variants.

    Raises:
        ConfigurationError: a file is missing or wrong, or an ordering names what there is not.
    """
    study = load_config(Study, folder / _STUDY)
    variants = {path.stem: load_config(Variant, path) for path in sorted((folder / _VARIANTS).glob("*.yaml"))}
    for claim in study.orderings:
        for name in (claim.lower, claim.higher):
            if name not in variants or claim.measure not in variants[name].measures:
                raise ConfigurationError(
                    f"{folder / _STUDY}: orderings: no variant {name} with the measure {claim.measure}; variants: "
                    + ", ".join(variants)
                )
    return study, variants


def plan_training(folder: Path, study: Study, variant: Variant, sets: Path, output: Path, seed: int) -> Plan:
    """Return a run of a variant with as many steps as the study's operations allow, to the nearest one.

    Args:
        folder: of the study.
        study: its facts.
        variant: what is trained.
        sets: folder of the sets.
        output: directory of the run.
        seed: of weights and order.

    Raises:
        ConfigurationError: the configuration is wrong, its sets do not go together, or a part is shorter than half a
            step.
    """
    base = parse_yaml((folder / _TRAIN).read_text(encoding="utf-8"))
    config = _merged(base, variant.train) | {"output": str(output), "seed": seed}
    heldout = {name: str(sets / chosen / "heldout") for name, chosen in variant.measures.items()}
    config["data"] = {**config["data"], "seed": seed, "heldout": heldout}
    batch = int(config["data"]["global_batch"])
    each = _flops_of_steps(_with_phases(config, variant, sets, [1] * len(variant.phases), batch))
    steps = [round(study.flops * part.share / flops) for part, flops in zip(variant.phases, each, strict=True)]
    if not all(steps):
        raise ConfigurationError(f"flops: {study.flops:.3g} are less than a step of each part ({max(each):.3g})")
    config = _with_phases(config, variant, sets, steps, batch)
    config["evaluate"] = {**config.get("evaluate", {}), "every": max(1, sum(steps) // study.evaluations)}
    config["checkpoint"] = {**config.get("checkpoint", {}), "every": config["evaluate"]["every"]}
    return Plan(config, tuple(steps), tuple(each))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested keys with changes; a mapping that both have is merged."""
    found = deepcopy(dict(base))
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if both else deepcopy(value)
    return found


def _with_phases(
    config: Mapping[str, Any], variant: Variant, sets: Path, steps: list[int], batch: int = 1
) -> dict[str, Any]:
    """Return a configuration that reads each part for its steps."""
    phases: list[dict[str, Any]] = []
    for number, part in enumerate(variant.phases):
        phase: dict[str, Any] = {"shards": [str(sets / name / "train") for name in part.sets]}
        phase["weights"] = list(part.sets.values())
        if number + 1 < len(variant.phases):
            phase["until_samples"] = batch * sum(steps[: number + 1])
        phases.append(phase)
    return {**config, "data": {**config["data"], "phases": phases}, "steps": sum(steps)}


def _flops_of_steps(config: Mapping[str, Any]) -> list[float]:
    """Return the operations of a step of each part, from the first rows of its sets."""
    checked: TrainConfig = validate(TrainConfig, dict(config), _TRAIN)
    datasets = open_datasets(checked)
    tokenizer = datasets.train.manifest.tokenizer
    model = build_model(checked.model, tokenizer.vocab_size, tokenizer.special_ids)
    phases = estimate_cost(checked, model, datasets, 1).phases
    return [phase.rows_per_step * phase.flops_per_row for phase in phases]
