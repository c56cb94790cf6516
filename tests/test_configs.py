"""Every YAML file under configs/ is read by its schema."""

import itertools
from pathlib import Path

import pytest
import yaml

from clozeline.configuration.config import flatten, load_config, read_composed
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import load_recipe
from clozeline.train.configuration.config import TrainConfig
from tests.pipeline.corruption_cases import vocabulary
from tests.recipes import trainings

ROOT = Path(__file__).parents[1]
CONFIGS = [
    path
    for path in sorted((ROOT / "configs").rglob("*.yaml"))
    if path.parent.name not in ("models", "bases", "launch")
    and path.relative_to(ROOT).parts[1] not in ("prompts", "published", "studies")
]
RECIPES = [path for path in CONFIGS if not {"tasks", "compression", "textbook"} & set(path.parts)]
"""All but those of tasks, which read no documents and start from another run, and of what stands
for itself."""
BODY = [
    f"model.{key}"
    for key in ("family=encoder", "dim=8", "layers=1", "attention_heads=2", "ffn_dim=8")
]


def relative(path):
    return str(path.relative_to(ROOT))


def load(path, *more):
    """By the file's place: `pipeline*.yaml` is a recipe, `train*.yaml` a training run, and so
    on."""
    if path.stem.startswith("pipeline") or path.parent.name == "tasks":
        recipe = load_recipe(path, [f"output={ROOT / 'runs'}", *more])
        if path.stem.startswith("pipeline"):
            return recipe
    else:
        assert path.stem.startswith("train"), (
            f"{path}: which schema reads it? Name it pipeline*.yaml or train*.yaml"
        )

    body = BODY if "tasks" in path.parts else []
    has_sets = {"shards", "phases"} & read_composed(TrainConfig, path).get("data", {}).keys()
    sets = [] if has_sets else ["data.shards=x"]
    return load_config(TrainConfig, path, [*sets, "output=y", *body, *more])


@pytest.mark.parametrize("path", CONFIGS, ids=relative)
def test_loads(path):
    load(path)


@pytest.mark.parametrize(
    "training", [one for one in trainings() if one.variant], ids=lambda one: one.name
)
def test_variants_load(training):
    sets = [] if {"phases", "shards"} & training.keys.get("data", {}).keys() else ["data.shards=x"]
    load_config(TrainConfig, training.path, [*sets, "output=y", *training.words])


def test_no_two_files_share_most_of_their_keys():
    """A file holds what differs from its base: fewer than 80 % of the keys and values of two files
    are the same."""
    keys = {
        path: set(map(str, flatten(yaml.safe_load(path.read_text(encoding="utf-8"))).items()))
        for path in (ROOT / "configs").rglob("*.yaml")
    }
    alike = [
        (relative(one), relative(other))
        for one, other in itertools.combinations(keys, 2)
        if len(keys[one] & keys[other]) >= 0.8 * max(len(keys[one]), len(keys[other]))
    ]

    assert alike == []


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if path.stem.startswith("pipeline")], ids=relative
)
def test_objectives_of_a_recipe_can_be_built_and_serve_its_training(path):
    """With the special tokens and sentinels that every trained tokenizer has.

    Sets do not overwrite each other.
    """
    recipe = load(path)
    check_recipe(recipe)
    built = [entry.build(vocabulary(1000)) for entry in recipe.config_of("corrupt")]

    assert len({objective.label for objective in built}) == len(built)

    if path.name == "pipeline.yaml" and path.with_name("train.yaml").exists():
        model = load(path.with_name("train.yaml")).model
        kinds = [entry.objective.type for entry in recipe.config_of("corrupt")]
        heads = set(model.targets.values())
        assert any(
            heads <= set(kind.heads) and model.architecture in kind.architectures for kind in kinds
        )
