"""The main line without an extension for published forms of models."""

from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints.published_forms import describe_export, with_published_heads
from clozeline.model.checkpoints.sources import NewModel
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.model_source import with_source
from tests.model.small_models import built


@pytest.fixture(autouse=True)
def hidden(monkeypatch):
    monkeypatch.setenv("CLOZELINE_HIDE", "published")


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: with_source({"init_from": str(folder)}),
        lambda folder: TrainedModel.open(folder, key="model.init_from"),
    ],
)
def test_a_folder_of_transformers_is_refused_with_what_to_do(tmp_path, read):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    expected = (
        rf"model.init_from: {tmp_path}: not a run or model directory: expected model.yaml.*no "
        "extension for published forms of models: CLOZELINE_HIDE=published hides some"
    )
    with pytest.raises(ConfigurationError, match=expected):
        read(tmp_path)


def test_a_start_says_that_no_export_is_known(monkeypatch):
    config = replace(
        built("encoder").config, heads={"classification": {"hidden": "auto", "classes": 3}}
    )
    fitted = with_published_heads(config, {})
    model = NewModel(fitted, 9, {})

    assert fitted.heads["classification"].hidden == "tanh"

    saved = {"classification": replace(fitted.heads["classification"], hidden="gelu")}

    assert with_published_heads(config, {}, saved).heads == saved
    assert describe_export(model) == [
        "export     no extension for published forms of models: CLOZELINE_HIDE=published hides "
        "some, leave it out"
    ]

    monkeypatch.delenv("CLOZELINE_HIDE")

    assert describe_export(model)[0].startswith("export     as Bert")
