import json

from pydantic import TypeAdapter

from model.config import ModelConfig
from model.head_config import HeadConfig
from tests.model.small_models import small_config


def test_every_field_is_described():
    for name, field in HeadConfig.__pydantic_fields__.items():
        assert field.description, name


def test_heads_have_a_short_form_and_a_long_one():
    """A head without options is saved as a number, as it was before there were any."""
    plain = TypeAdapter(ModelConfig).dump_python(small_config("encoder"), mode="json")
    assert plain["heads"] == {"masked_lm": 1.0}
    similar = {"similarity": {"weight": 1.0, "group_size": 4}}
    read = TypeAdapter(ModelConfig).validate_python(plain | {"heads": {"similarity": {"group_size": 4}}})
    assert TypeAdapter(ModelConfig).dump_python(read, mode="json")["heads"] == similar
    for given, dumped in ((2, 2.0), ({"weight": 2}, 2.0), ({"normalise": "row"}, {"weight": 1.0, "normalise": "row"})):
        text = json.dumps(plain | {"heads": {"masked_lm": given}})
        config = TypeAdapter(ModelConfig).validate_json(text, strict=True)
        assert TypeAdapter(ModelConfig).dump_python(config, mode="json")["heads"] == {"masked_lm": dumped}
    assert config.head_weights == {"masked_lm": 1.0}
