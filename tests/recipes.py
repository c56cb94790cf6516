"""The trainings and pipelines of configs/recipes: each file with its variants."""

from pathlib import Path
from typing import NamedTuple

import yaml

from clozeline.configuration.config import read_composed
from clozeline.train.configuration.config import TrainConfig

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "configs" / "recipes"


class Training(NamedTuple):
    """A training of a recipe: the file and the words that choose its variant."""

    recipe: str
    """as in `--config recipe:NAME`"""
    path: Path
    variant: str | None = None

    @property
    def name(self):
        return self.recipe if self.variant is None else f"{self.recipe} variant={self.variant}"

    @property
    def words(self):
        return [] if self.variant is None else [f"variant={self.variant}"]

    @property
    def keys(self):
        return read_composed(TrainConfig, self.path, self.words)


def trainings():
    """Yield every training, those of a file before its variants."""
    for path in sorted([*RECIPES.glob("*/train.yaml"), *RECIPES.glob("tasks/*.yaml")]):
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
        part = plain.get("train", plain) if path.parent.name == "tasks" else plain
        recipe = f"tasks/{path.stem}" if path.parent.name == "tasks" else path.parent.name
        yield Training(recipe, path)
        for variant in part.get("variants", {}):
            yield Training(recipe, path, variant)


def find_training(recipe, variant=None):
    return next(one for one in trainings() if (one.recipe, one.variant) == (recipe, variant))
