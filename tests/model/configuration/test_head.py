import json

import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS
from tests.model.small_models import small_config


def test_heads_have_a_short_form_and_a_long_one():
    """A head without options is saved as a number, as it was before there were any."""
    plain = TypeAdapter(ModelConfig).dump_python(small_config("encoder"), mode="json")

    assert plain["heads"] == {"masked_lm": 1.0}

    for given, dumped in (
        (2, 2.0),
        ({"weight": 2}, 2.0),
        ({"normalize": "row"}, {"weight": 1.0, "normalize": "row"}),
    ):
        text = json.dumps(plain | {"heads": {"masked_lm": given}})
        config = TypeAdapter(ModelConfig).validate_json(text, strict=True)
        assert TypeAdapter(ModelConfig).dump_python(config, mode="json")["heads"] == {
            "masked_lm": dumped
        }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"classes": 3, "labels": ["no", "yes"]},
            "classes: expected 2, the number of labels, got 3",
        ),
        ({"labels": ["no", "no"]}, "labels: expected different names, got no, no"),
        ({"hidden_norm": True}, "hidden_norm: there is no hidden map to normalize"),
        ({"hidden_dim": 5}, "hidden_dim: there is no hidden map of this width"),
    ],
    ids=["count", "names", "norm", "width"],
)
def test_keys_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        HEADS.load_class("classification").Options(**options)
