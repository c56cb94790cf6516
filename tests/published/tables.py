"""What published trainings set, as read from their own sources, and where a recipe says it.

`NAME.tsv` has a row for each value of the source: its name, the value, its file, and how the recipe
says it. `NAME.yaml` has facts that follow from its code.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import yaml

from clozeline.configuration.config import load_config, read_composed
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.train.configuration.config import TrainConfig
from tests.recipes import RECIPES

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.tsv"))
TRAININGS = [name for name in NAMES if (RECIPES / name / "train.yaml").exists()]
"""Those that train; slimpajama is a recipe of data."""
FIXED = "always"
"""What every training here does, without a key."""
INPUT = "input"
"""What the user's files decide."""
MISSING = "no: "
"""What cannot be said, followed by what happens instead."""


class Row(NamedTuple):
    """A value of a source."""

    name: str
    value: str
    file: str
    ours: str
    """`KEY=VALUE; ...` of the training, with `pipeline.` before keys of the pipeline's recipe"""

    @property
    def is_counted(self):
        return self.ours != INPUT

    @property
    def is_expressed(self):
        return not self.ours.startswith(MISSING)

    @property
    def keys(self):
        """The keys that say it."""
        if not self.is_expressed or self.ours in (FIXED, INPUT):
            return []
        return [entry.strip().partition("=")[::2] for entry in self.ours.split(";")]


def rows_of(name):
    with (FOLDER / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(lines)
        return [Row(*line) for line in lines]


def counts_of(name):
    """How many values the recipe says, and of how many."""
    counted = [row for row in rows_of(name) if row.is_counted]
    return sum(row.is_expressed for row in counted), len(counted)


def facts_of(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def training_of(name, *words):
    return load_config(TrainConfig, RECIPES / name / "train.yaml", ["output=y", *words])


def pipeline_of(name, *words):
    return load_recipe(RECIPES / name / "pipeline.yaml", ["output=y", *words])


def entries_of(name):
    """The objectives of its pipeline, as written."""
    return read_composed(Recipe, RECIPES / name / "pipeline.yaml")["corrupt"]
