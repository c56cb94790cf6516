"""Read a study and its variants, and plan trainings with the FLOPs that the study allows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from clozeline.columns import SAMPLE_WORDS
from clozeline.configuration.config import (
    ONE_OR_MORE,
    Names,
    config_class,
    flatten,
    load_config,
    read_composed,
    validate,
)
from clozeline.configuration.overrides import merge, override
from clozeline.errors import ConfigurationError
from clozeline.model.registries import FAMILIES
from clozeline.tools.command import Positive
from clozeline.tools.runs.inference.text_likelihoods import Score
from clozeline.train.configuration.config import TrainConfig

STUDY: Final = "study.yaml"
"""The file of a study in its folder: its parts are study, pipeline and train."""


@config_class
class Ordering:
    """A published claim: one variant is better than another."""

    measure: str
    """measure that the claim is about"""
    lower: str
    """variant with the lower loss"""
    higher: str
    """variant with the higher loss"""
    equal: Literal["flops", "tokens"] = "flops"
    """what both must have had as much of"""
    said: str
    """the claim and its source"""


@config_class
class FineTuning:
    """A fine-tuning of the first run of each variant, on labeled files of the command line."""

    task: str
    """recipe of the task, as `clozeline finetune` takes it"""
    begin: Annotated[list[Literal["all", "embeddings", "random"]], ONE_OR_MORE] = field(
        default_factory=lambda: ["all"]
    )
    """weights that are taken from the run: a fine-tuning for each"""
    seeds: Positive | None = None
    """runs of each fine-tuning; default: as many as the study has"""
    words: list[str] = field(default_factory=list)
    """keys of the stage and of the training: [steps=200, "tasks.split_off={rest: 0.99}"]"""


@config_class
class Study:
    """Properties of a study that hold for all variants."""

    PART: ClassVar = "study"

    title: str
    """title of the page"""
    flops: Annotated[float, Field(gt=0)]
    """FLOPs of each training run, forward and backward, with the forward passes of a teacher in
    memory"""
    steps: Positive | None = None
    """steps of each run instead of FLOPs: equal tokens"""
    seeds: Positive = 3
    """runs per variant; with one, the variance over seeds is unknown, and no claim is decided"""
    evaluations: Positive = 8
    """evaluations per run"""
    orderings: list[Ordering] = Field(default_factory=list)
    """claims to test"""
    finetune: dict[str, FineTuning] = field(default_factory=dict)
    """fine-tunings by name, each with as many seeds as the study has"""
    variants: dict[str, dict[str, Any]]
    """sets that each variant reads, held-out rows that measure it, and keys that differ; `base`
    names another one"""


@config_class
class TrainingPart:
    """A part of a training: sets, and its share of the FLOPs."""

    sets: dict[str, Annotated[float, Field(gt=0)]]
    """weight of each set, by its folder in `corrupt`; VARIANT/SET is a set of another variant's
    pipeline"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of the run's FLOPs; all parts sum to 1"""


@config_class
class Variant:
    """A variant of the training."""

    phases: list[TrainingPart]
    """parts in order"""
    measures: dict[str, str]
    """measure → set whose held-out rows it is computed on; only measures that the training prepared
    the model for"""
    pairs: list[Score] = Field(default_factory=list)
    """scores of minimal pairs, if pairs are given"""
    train: dict[str, Any] = Field(default_factory=dict)
    """keys that differ from the study's part `train`"""
    base: str | None = None
    """variant whose keys hold unless this one changes them; with a pipeline, the comparison is
    called a step"""
    pipeline: dict[str, Any] | None = None
    """keys that differ from the study's part `pipeline`: the variant has sets of its own"""
    sources: Names | None = None
    """sources of the input, by their labels, that the variant's own pipeline reads; default: all"""

    def __post_init__(self) -> None:
        if abs(sum(part.share for part in self.phases) - 1) > 1e-9:
            raise ValueError(
                "phases: expected shares that are 1 together, got "
                f"{[part.share for part in self.phases]}"
            )


@dataclass(frozen=True)
class VariantSets:
    """Where the sets of a variant are, and those of the others."""

    own: Path
    """folder of the variant's sets"""
    others: Mapping[str, Path] = field(default_factory=dict)
    """folder of the sets of each variant"""

    def find(self, name: str) -> Path:
        """Return the folder of a set SET or VARIANT/SET."""
        variant, slash, set_name = name.rpartition("/")
        return self.others[variant] / set_name if slash else self.own / name


@dataclass(frozen=True)
class PlannedRun:
    """One run, ready to start: its configuration, and the steps and FLOPs per step of each part."""

    parameters: int
    config: dict[str, Any]
    steps: tuple[int, ...]
    flops: tuple[float, ...]

    @property
    def total(self) -> float:
        """FLOPs of the run."""
        return sum(steps * each for steps, each in zip(self.steps, self.flops, strict=True))


def find_study_file(path: Path) -> Path:
    """Return the file of a study, which is given itself or by its folder."""
    return path / STUDY if path.is_dir() else path


def load_study(path: Path) -> tuple[Study, dict[str, Variant]]:
    """Read a study, given by its folder or file, and its variants.

    Raises:
        ConfigurationError: a claim names a variant that does not exist, or a phase a set of one.
    """
    file = find_study_file(path)
    study = load_config(Study, file)
    keys = study.variants
    variants = {
        name: validate(Variant, _with_base(name, keys, file), f"{file}: {name}") for name in keys
    }
    variants = dict(sorted(variants.items(), key=lambda item: _depth(item[0], variants)))
    if len({variant.pipeline is None for variant in variants.values()}) > 1:
        raise ConfigurationError(
            f"{file}: variants: expected a pipeline for every variant or for none"
        )

    named = (
        set_name
        for variant in variants.values()
        for part in variant.phases
        for set_name in part.sets
    )
    owners = {set_name.rpartition("/")[0] for set_name in named} - {""}
    if unknown := sorted(owners - variants.keys()):
        raise ConfigurationError(
            f"{file}: phases: expected the sets of a variant, one of {', '.join(variants)}, got "
            f"{unknown[0]}/…"
        )

    for claim in study.orderings:
        for name in (claim.lower, claim.higher):
            if name not in variants or claim.measure not in variants[name].measures:
                raise ConfigurationError(
                    f"{file}: orderings: no variant {name} with the measure {claim.measure}; "
                    "variants: " + ", ".join(variants)
                )

    return study, variants


def _with_base(
    name: str, keys: Mapping[str, dict[str, Any]], file: Path, above: tuple[str, ...] = ()
) -> Any:
    """Return the keys of a variant merged over its base."""
    if name not in keys or name in above:
        problem = "is based on itself" if name in above else f"is not a variant: {', '.join(keys)}"
        raise ConfigurationError(f"{file}: variants: base: {name} {problem}")
    base = keys[name].get("base")
    if base is None:
        return keys[name]
    inherited = _with_base(base, keys, file, (*above, name))
    return merge(Any, inherited, keys[name])


def _depth(name: str, variants: Mapping[str, Variant]) -> int:
    base = variants[name].base
    return 0 if base is None else 1 + _depth(base, variants)


def have_own_pipelines(variants: Mapping[str, Variant]) -> bool:
    """Return whether the variants change the pipeline, so that each has separate sets.

    `load_study` refuses a mixture.
    """
    return any(variant.pipeline is not None for variant in variants.values())


def plan_training(
    folder: Path,
    study: Study,
    variant: Variant,
    sets: VariantSets,
    output: Path,
    seed: int,
    heldout: Mapping[str, Path] | None = None,
) -> PlannedRun:
    """Return a run of a variant with as many steps as the study's FLOPs allow, to the nearest step.

    `folder` is that of the study, or its file. `heldout` are the sets of the variant's measures; by
    default those next to the training sets in `sets`.
    """
    from clozeline.model.build import build_model
    from clozeline.train.data.sets.datasets import open_datasets
    from clozeline.train.hooks import UnwrappedModel
    from clozeline.train.logs.cost_estimate import estimate_cost
    from clozeline.train.startup.starting_model import wrap_model

    config = _compose_config(folder, variant, sets, output, seed, heldout)
    batch = int(config["data"]["global_batch"])
    # FLOPs of a step of each part, estimated from the first rows of its sets
    probe = _validate_config(config, variant, sets)
    datasets = open_datasets(probe)
    tokenizer = datasets.train.manifest.tokenizer
    model = build_model(probe.model, tokenizer.vocab_size, tokenizer.special_ids)
    wrapped, _ = wrap_model(UnwrappedModel(model, probe, datasets.train))
    phases = estimate_cost(probe, wrapped, datasets, 1).phases
    costs = [cost.rows_per_step * cost.flops_per_row for cost in phases]
    steps = [
        round((study.steps or study.flops / flops) * part.share)
        for part, flops in zip(variant.phases, costs, strict=True)
    ]
    if not all(steps):
        raise ConfigurationError(
            f"flops: {study.flops:.3g} are less than a step of each part ({max(costs):.3g})"
        )

    config = _set_phases(config, variant, sets, steps, batch)
    config["evaluate"] = {
        **config.get("evaluate", {}),
        "every": max(1, sum(steps) // study.evaluations),
    }
    config["checkpoint"] = {**config.get("checkpoint", {}), "every": config["evaluate"]["every"]}
    parameters = sum(tensor.numel() for tensor in model.parameters())
    return PlannedRun(parameters, config, tuple(steps), tuple(costs))


def check_variants(folder: Path, variants: Mapping[str, Variant], output: Path) -> None:
    """Raise ConfigurationError for a variant with a mistake in its training.

    This is called before any set is made.
    """
    sets = VariantSets(output, dict.fromkeys(variants, output))
    for name, variant in variants.items():
        config = _validate_config(
            _compose_config(folder, variant, sets, output / name, 0, None), variant, sets
        )
        family = FAMILIES.load_class(config.model.family)
        if variant.measures and SAMPLE_WORDS in family.reads:
            raise ConfigurationError(
                f"{folder / STUDY}: {name}: measures: this model samples its inputs in training, "
                "so it has no loss of a set; write measures: {}, and read its training losses"
            )


def _compose_config(
    folder: Path,
    variant: Variant,
    sets: VariantSets,
    output: Path,
    seed: int,
    heldout: Mapping[str, Path] | None,
) -> dict[str, Any]:
    """Return the keys of a variant's training, without its phases."""
    changes = [f"{key}={json.dumps(value)}" for key, value in flatten(variant.train).items()]
    file = find_study_file(folder)
    base = override(TrainConfig, read_composed(TrainConfig, file), changes, str(file))
    config: dict[str, Any] = base | {"output": str(output), "seed": seed}
    measured = heldout or {
        name: sets.find(set_name) / "heldout" for name, set_name in variant.measures.items()
    }
    config["data"] = {
        **config["data"],
        "seed": seed,
        "heldout": {name: str(path) for name, path in measured.items()},
    }

    return config


def _validate_config(config: Mapping[str, Any], variant: Variant, sets: VariantSets) -> TrainConfig:
    """Return the validated configuration of a training with a step of each part."""
    batch = int(config["data"]["global_batch"])
    single_steps = _set_phases(config, variant, sets, [1] * len(variant.phases), batch)
    probe: TrainConfig = validate(TrainConfig, single_steps, STUDY)
    return probe


def _set_phases(
    config: Mapping[str, Any], variant: Variant, sets: VariantSets, steps: list[int], batch: int
) -> dict[str, Any]:
    phases: list[dict[str, Any]] = []
    for number, part in enumerate(variant.phases):
        phase: dict[str, Any] = {"shards": [str(sets.find(name) / "train") for name in part.sets]}
        phase["weights"] = list(part.sets.values())
        if number + 1 < len(variant.phases):
            phase["until_samples"] = batch * sum(steps[: number + 1])
        phases.append(phase)
    return {**config, "data": {**config["data"], "phases": phases}, "steps": sum(steps)}
