import pytest
from pydantic import ValidationError

from clozeline.configuration.config import describe
from clozeline.model.configuration.layer import BiasConfig, DropoutConfig, InitConfig, ShareConfig


@pytest.mark.parametrize("schema", [BiasConfig, DropoutConfig, InitConfig, ShareConfig])
def test_every_field_is_described(schema):
    assert all(text for *_, text in describe(schema))


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        (DropoutConfig, {"hidden": 1.0}, "less than 1"),
        (InitConfig, {"std": 0.0}, "greater than 0"),
        (InitConfig, {"scheme": "zeros"}, "'normal' or 't5'"),
        (ShareConfig, {"groups": 0}, "greater than or equal to 1"),
        (BiasConfig, {"keys": False}, "Unexpected keyword argument"),
    ],
    ids=["probability", "deviation", "scheme", "groups", "unknown"],
)
def test_values_out_of_range_are_refused(schema, keys, message):
    with pytest.raises(ValidationError, match=message):
        schema(**keys)
