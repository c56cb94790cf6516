"""Recipes: forms of `input`, keys of stages, and the way back to plain data."""

import pytest

from clozeline.configuration.config import load_keys, to_data, validate
from clozeline.configuration.overrides import override
from clozeline.errors import ConfigurationError
from clozeline.pipeline import all_stages
from clozeline.pipeline.recipe import Recipe
from tests.refusals import refused


def recipe(**keys):
    return validate(Recipe, {"corpus": "c", **keys}, "test")


@pytest.mark.parametrize(
    "source",
    [
        "a.jsonl",
        ["a.jsonl"],
        {"path": "a.jsonl"},
        [{"path": "a.jsonl"}],
        {"path": "a.jsonl", "source": "default"},
    ],
)
def test_an_input_is_a_path_an_entry_or_a_list(source):
    assert recipe(input=source).input == recipe(input="a.jsonl").input


@pytest.mark.parametrize("key", ["input.text_key", "input.0.text_key"])
def test_a_key_of_a_single_input_is_set_with_and_without_its_index(key):
    recipe = load_keys(Recipe, {"corpus": "c"}, ["input=a.csv", f"{key}=body"])
    assert recipe.input[0].options == {"text_key": "body"}


def test_an_unknown_key_of_an_input_is_answered_with_keys_of_users():
    with pytest.raises(ConfigurationError) as caught:
        load_keys(Recipe, {"corpus": "c"}, ["input=a.csv", "input.xyz=1"])
    assert "text_key" in str(caught.value)
    assert "_OF" not in str(caught.value)
    assert "_KEY" not in str(caught.value)


def test_options_of_readers_are_beside_the_keys_of_an_input():
    entries = recipe(
        input=[
            {"path": "a", "text_key": "body"},
            {"path": "b", "reader": "tsv", "columns": ["text"]},
        ]
    ).input

    assert [entry.options for entry in entries] == [
        {"text_key": "body"},
        {"columns": ["text"]},
    ]

    with refused(r"input\.0.*'txt_key'.*did you mean 'text_key'"):
        recipe(input={"path": "a", "txt_key": "body"})


def test_a_recipe_is_its_plain_data_again():
    given = recipe(
        input=[{"path": "a", "text_key": "body"}],
        clean={"filters": []},
        dedup={"near": None},
        plan={},
    )

    plain = to_data(given)

    assert validate(Recipe, plain, "again") == given
    assert plain["input"][0]["text_key"] == "body"
    assert (plain["encode"], plain["clean"]["filters"]) == (None, [])


def test_options_leave_with_their_algorithm():
    """A stored recipe has all of them: no one wrote the key that another extractor refuses."""
    plain = to_data(recipe(clean={"extractor": {"name": "resiliparse", "timeout_s": 2}}))
    words = ["clean.extractor.name=trafilatura"]
    extractor = validate(Recipe, override(Recipe, plain, words, "x"), "x").clean.extractor

    assert (extractor.name, extractor.options.timeout_s) == ("trafilatura", 2)

    changed = override(Recipe, plain, [*words, "clean.extractor.main_content=true"], "x")

    with refused("unknown key 'main_content'"):
        validate(Recipe, changed, "x")


def test_every_stage_has_its_key():
    assert {"clean", "corrupt"} < set(all_stages()) < set(Recipe.__dataclass_fields__)

    with refused(r"unknown key 'clean.filtres'; did you mean 'clean.filters'"):
        recipe(clean={"filtres": []})

    with refused("unknown key 'cleen'; did you mean 'clean'"):
        recipe(cleen={})


def test_a_run_needs_an_output():
    with refused("no output folder: add output=DIR"):
        recipe().folder("clean")
