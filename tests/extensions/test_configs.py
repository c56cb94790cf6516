"""Every file of configs/ that an extension reads is read by its schema."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from clozeline import HOME
from clozeline.configuration.config import load_config, validate
from clozeline.extensions.evaluation.prompting.template import Template
from clozeline.extensions.studies.study_plan import Study, compose_config, load_study
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import load_recipe
from clozeline.train.configuration.config import TrainConfig


@pytest.mark.parametrize("path", sorted((HOME / "configs/studies").glob("*/*.yaml")), ids=str)
def test_studies_load(path):
    _, variants = load_study(path)
    check_recipe(load_recipe(path, ["output=runs"]))
    # a variant or a base may have the head
    has_head = "\n    heads:" in path.read_text()
    head = [] if has_head else ["model.heads={masked_lm: 1.0}"]
    load_config(TrainConfig, path, ["data.shards=x", "output=y", *head])
    load_config(Study, path)
    sets = Mock(find=Path, heldout=lambda *_: None)
    for variant in variants.items():
        composed = compose_config(path, variant, sets, Path("y"), 0)
        head = {"heads": {"masked_lm": 1.0}, **composed["model"]}
        validate(TrainConfig, {**composed, "model": head}, variant[0])


def test_prompts_load():
    for path in (HOME / "configs/prompts").glob("*.yaml"):
        load_config(Template, path)
