"""Every YAML file under configs/ is read by the schema it is written for."""

import itertools
import re
from pathlib import Path

import pytest
import yaml

from clozeline.configuration.config import flatten, load_config
from clozeline.errors import ClozelineError
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.tools.experiments.multirun.study_plan import Study, load_study
from clozeline.tools.runs.prompting.template import Template
from clozeline.train.configuration.config import TrainConfig
from tests.matrices import mark_slow_but
from tests.pipeline.corruption_cases import vocabulary
from tests.recipes import trainings

ROOT = Path(__file__).parents[1]
CONFIGS = [path for path in sorted((ROOT / "configs").rglob("*.yaml")) if path.parent.name not in ("models", "bases")]
RECIPES = [path for path in CONFIGS if not {"tasks", "studies", "compression", "textbook"} & set(path.parts)]
"""All but those of tasks, which read no documents and start from another run, and of what stands for itself."""
BODY = [f"model.{key}" for key in ("family=encoder", "dim=8", "layers=1", "attention_heads=2", "ffn_dim=8")]


def relative(path):
    return str(path.relative_to(ROOT))


def load(path, *more):
    """By the file's place: `pipeline*.yaml` is a recipe, `train*.yaml` a training run, and so on."""
    if path.stem == "study":
        load_study(path.parent)
        return load_config(Study, path, more)
    if path.parent.name == "prompts":
        return load_config(Template, path, more)
    if path.stem.startswith("pipeline") or path.parent.name == "tasks":
        recipe = load_recipe(path, [f"output={ROOT / 'runs'}", *more])
        if path.stem.startswith("pipeline"):
            return recipe
    else:
        assert path.stem.startswith("train"), f"{path}: which schema reads it? Name it pipeline*.yaml or train*.yaml"
    body = BODY if "tasks" in path.parts else []
    if "studies" in path.parts and "\n  heads:" not in path.read_text(encoding="utf-8"):
        body = ["model.heads={lm: 1.0}"]  # each variant has its own
    return load_config(TrainConfig, path, ["data.shards=x", "output=y", *body, *more])


def test_there_are_configs():
    assert {"configs/recipes/demo/pipeline.yaml", "configs/recipes/demo/train.yaml"} <= set(map(relative, CONFIGS))
    assert not list((ROOT / "configs").rglob("*.yml"))


@pytest.mark.parametrize("path", CONFIGS, ids=relative)
def test_loads(path):
    load(path)


@pytest.mark.parametrize("training", [one for one in trainings() if one.variant], ids=lambda one: one.name)
def test_variants_load(training):
    load_config(TrainConfig, training.path, ["data.shards=x", "output=y", *training.words])


def test_no_two_files_share_most_of_their_keys():
    """A file holds what differs from its base: fewer than 80 % of the keys and values of two files are the same."""
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


@pytest.mark.parametrize("path", mark_slow_but(CONFIGS[::10], CONFIGS), ids=relative)
def test_refuses_an_unknown_key(path):
    with pytest.raises(ClozelineError, match="no_such_key"):
        load(path, "no_such_key=1")


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem.startswith("pipeline")], ids=relative)
def test_objectives_of_a_recipe_can_be_built(path):
    """With the special tokens and sentinels that every trained tokenizer has; sets do not overwrite each other."""
    recipe = load(path)
    assert isinstance(recipe, Recipe)
    check_recipe(recipe)
    built = [entry.build(vocabulary(1000)) for entry in recipe.config_of("corrupt")]
    assert len({objective.label for objective in built}) == len(built)


def test_every_published_recipe_is_here():
    models = {"bert", "roberta", "albert", "spanbert", "electra", "xlnet", "unilm", "xlm", "gpt", "t5", "bart", "mass",
              "ul2", "coco_lm", "elmo", "deberta", "deberta_v3", "mobilebert"}  # fmt: skip
    assert models <= {path.parent.name for path in CONFIGS if path.name == "pipeline.yaml"}
    text = "".join(path.read_text(encoding="utf-8") for path in CONFIGS if path.name == "pipeline.yaml")
    assert len(set(re.findall(r"arXiv \d{4}\.\d{5}", text))) >= len(models)


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem == "train"], ids=relative)
def test_a_recipe_makes_what_its_training_needs(path):
    """Beside each train.yaml is the pipeline.yaml whose objectives serve the heads it trains."""
    recipe, training = load(path.with_name("pipeline.yaml")), load(path)
    assert isinstance(recipe, Recipe)
    assert isinstance(training, TrainConfig)
    served = [
        entry.objective.type
        for entry in recipe.config_of("corrupt")
        if set(training.model.targets.values()) <= set(entry.objective.type.heads)
        and training.model.architecture in entry.objective.type.architectures
    ]
    assert served


@pytest.mark.parametrize("path", [path for path in RECIPES if path.name == "pipeline.yaml"], ids=relative)
def test_a_recipe_says_how_it_differs_from_the_paper(path):
    comment = path.read_text(encoding="utf-8").split("base:")[0]
    if path.parent.name not in ("demo", "web", "small_languages"):
        _, _, differences = comment.partition("# Differs from the paper:\n")
        assert re.match(r"(# - .+\n)+$", differences)
