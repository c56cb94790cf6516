"""Read a study and its variants, and plan trainings with the FLOPs that the study allows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
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
    """A fine-tuning of each run of each variant, on labeled files of the command line."""

    task: str
    """recipe of the task, as `clozeline finetune` takes it"""
    begin: Annotated[list[Literal["all", "embeddings", "random"]], ONE_OR_MORE] = field(
        default_factory=lambda: ["all"]
    )
    """weights that are taken from the run: a fine-tuning for each"""
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
    """fine-tunings by name"""
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
class StudySets:
    """Folders of the sets of each variant, and of each measure with separate files."""

    variants: Mapping[str, Path]
    measures: Mapping[str, Path] = field(default_factory=dict)

    def find(self, variant: str, name: str) -> Path:
        """Return the folder of a set SET, or VARIANT/SET of another variant."""
        owner, _, set_name = name.rpartition("/")
        return self.variants[owner or variant] / set_name

    def heldout(self, variant: str, measures: Mapping[str, str]) -> dict[str, str]:
        """Return the sets of a variant's measures: of separate files, if there are any."""
        if self.measures:
            found = {
                measure: self.measures[measure] / name / "train"
                for measure, name in measures.items()
                if measure in self.measures
            }
        else:
            found = {
                measure: self.find(variant, name) / "heldout" for measure, name in measures.items()
            }
        return {measure: str(path) for measure, path in found.items()}


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
    """Read a study, given by its folder or file, and its variants, each after its base.

    Raises:
        ConfigurationError: a base, a claim or a phase names a variant that does not exist.
    """
    file = find_study_file(path)
    study = load_config(Study, file)
    merged: dict[str, Any] = {}

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        """Merge the keys of a variant over those of its base."""
        if name not in study.variants or name in above:
            problem = "based on itself" if name in above else f"none of {', '.join(study.variants)}"
            raise ConfigurationError(f"{file}: variants: base: {name} is {problem}")
        base = study.variants[name].get("base")
        if base is not None and base not in merged:
            add(base, (*above, name))
        inherited = {} if base is None else merged[base]
        merged[name] = merge(Any, inherited, study.variants[name])

    for name in study.variants:
        add(name)

    variants = {name: validate(Variant, keys, f"{file}: {name}") for name, keys in merged.items()}
    parts = (part for variant in variants.values() for part in variant.phases)
    named = {set_name.rpartition("/")[0] for part in parts for set_name in part.sets}
    if unknown := sorted(named - {"", *variants}):
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


def plan_training(
    folder: Path,
    study: Study,
    variant: tuple[str, Variant],
    sets: StudySets,
    output: Path,
    seed: int,
) -> PlannedRun:
    """Return a run of a variant with as many steps as the study's FLOPs allow, to the nearest step.

    `folder` is that of the study, or its file.
    """
    from clozeline.model.build import build_model
    from clozeline.model.parameters.sharding import SHAPES
    from clozeline.train.data.sets.datasets import open_datasets
    from clozeline.train.hooks import UnwrappedModel
    from clozeline.train.logs.cost_estimate import estimate_cost
    from clozeline.train.startup.starting_model import wrap_model

    phases = variant[1].phases
    config = compose_config(folder, variant, sets, output, seed)
    # FLOPs of a step of each part, estimated from the first rows of its sets
    probe: TrainConfig = validate(TrainConfig, config, STUDY)
    datasets = open_datasets(probe)
    tokenizer = datasets.train.manifest.tokenizer
    ids = tokenizer.special_ids
    model = build_model(probe.model, tokenizer.vocab_size, ids, placement=SHAPES)
    wrapped, _ = wrap_model(UnwrappedModel(model, probe, datasets.train, SHAPES))
    estimated = estimate_cost(probe, wrapped, datasets, 1).phases
    costs = [cost.rows_per_step * cost.flops_per_row for cost in estimated]
    steps = [
        round((study.steps or study.flops / flops) * part.share)
        for part, flops in zip(phases, costs, strict=True)
    ]
    if not all(steps):
        raise ConfigurationError(
            f"flops: {study.flops:.3g} are less than a step of each part ({max(costs):.3g})"
        )

    config = compose_config(folder, variant, sets, output, seed, steps)
    every = max(1, sum(steps) // study.evaluations)
    for key in ("evaluate", "checkpoint"):
        config[key] = {**config.get(key, {}), "every": every}
    parameters = sum(tensor.numel() for tensor in model.parameters())
    return PlannedRun(parameters, config, tuple(steps), tuple(costs))


def check_variants(folder: Path, variants: Mapping[str, Variant], output: Path) -> None:
    """Raise ConfigurationError for a variant with a mistake in its training.

    This is called before any set is made.
    """
    sets = StudySets(dict.fromkeys(variants, output))
    for variant in variants.items():
        config = compose_config(folder, variant, sets, output / variant[0], 0)
        family = FAMILIES.load_class(validate(TrainConfig, config, STUDY).model.family)
        if variant[1].measures and SAMPLE_WORDS in family.reads:
            raise ConfigurationError(
                f"{folder}: {variant[0]}: measures: this model samples its inputs in training, "
                "so it has no loss of a set; write measures: {}, and read its training losses"
            )


def compose_config(
    folder: Path,
    variant: tuple[str, Variant],
    sets: StudySets,
    output: Path,
    seed: int,
    steps: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the keys of a variant's training, with so many steps of each part; default: one."""
    name, keys = variant
    file = find_study_file(folder)
    config = merge(TrainConfig, read_composed(TrainConfig, file), {**keys.train, "model": {}})
    # key by key, since another family keeps the sizes
    model = flatten({"model": keys.train.get("model", {})})
    changes = [f"{key}={json.dumps(value)}" for key, value in model.items()]
    config = override(TrainConfig, config, changes, str(file))
    ends = [*accumulate(steps or [1] * len(keys.phases))]
    phases: list[dict[str, Any]] = []

    for part, end in zip(keys.phases, ends, strict=True):
        shards = [str(sets.find(name, each) / "train") for each in part.sets]
        phases.append({"shards": shards, "weights": list(part.sets.values())})
        if end < ends[-1]:
            phases[-1]["until_samples"] = int(config["data"]["global_batch"]) * end

    data = {
        **config["data"],
        "seed": seed,
        "heldout": sets.heldout(name, keys.measures),
        "phases": phases,
    }
    return {**config, "output": str(output), "seed": seed, "data": data, "steps": ends[-1]}
