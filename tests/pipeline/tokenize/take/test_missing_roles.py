from __future__ import annotations

from dataclasses import replace

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tokenize.take.stage import find_missing_roles, users_of
from clozeline.pipeline.tokenize.tokenizers._pieces import foreseen_vocabulary

WHOLE = foreseen_vocabulary(1024, 0)


def rows(entry):
    return {"group": {}, "corrupt": [entry]}


@pytest.mark.parametrize(
    ("stages", "has", "needed"),
    [
        (rows({"name": "masked_lm", "max_length": 64}), {"eos"}, ["pad", "cls", "sep", "mask"]),
        (rows({"name": "masked_lm", "max_length": 64}), {"pad", "cls", "sep", "mask"}, []),
        (rows({"name": "span_corruption", "input_length": 64}), {"pad"}, ["eos", "sentinels"]),
        (rows({"name": "span_corruption", "input_length": 64, "mode": "R"}), {"pad", "eos"}, ["sentinels", "modes"]),
        ({"group": {}, "encode": {}}, {"eos"}, ["pad"]),
        ({"encode": {}}, {"eos"}, []),
        ({"tasks": {"reader": {"name": "glue", "task": "sst2"}, "frame": "roberta"}}, {"mask"}, ["pad", "cls", "sep"]),
    ],
)
def test_rows_need_what_they_refuse_to_be_without(stages, has, needed):
    poor = replace(WHOLE, specials={name: WHOLE.specials[name] for name in has}, sentinels=(), modes={})
    recipe = validate(Recipe, {"corpus": "c", **stages}, "recipe")
    assert list(find_missing_roles(users_of(recipe), poor)) == needed


def test_more_sentinels_than_can_be_added_are_refused_by_that_reason():
    """Not by another token of the objective, which adding would give."""
    recipe = validate(Recipe, {"corpus": "c", **rows({"name": "span_corruption", "input_length": 4096})}, "recipe")
    with pytest.raises(ConfigurationError, match=r"needs .* sentinels"):
        list(find_missing_roles(users_of(recipe), replace(WHOLE, specials={}, sentinels=(), modes={})))
