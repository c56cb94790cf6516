"""Every file of configs/ that an extension reads is read by its schema."""

import pytest

from clozeline import HOME
from clozeline.configuration.config import load_config
from clozeline.extensions.evaluation.prompting.template import Template
from clozeline.extensions.studies.study_plan import Study, load_study
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import load_recipe
from clozeline.train.configuration.config import TrainConfig


@pytest.mark.parametrize("path", sorted((HOME / "configs/studies").glob("*/*.yaml")), ids=str)
def test_studies_load(path):
    load_study(path)
    check_recipe(load_recipe(path, ["output=runs"]))
    # a variant or a base may have the head
    has_head = "\n    heads:" in path.read_text()
    head = [] if has_head else ["model.heads={masked_lm: 1.0}"]
    load_config(TrainConfig, path, ["data.shards=x", "output=y", *head])
    load_config(Study, path)


def test_prompts_load():
    for path in (HOME / "configs/prompts").glob("*.yaml"):
        load_config(Template, path)
