import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.config_keys import (
    read_activation,
    read_fields,
    refuse_other_values,
    validate_config,
)


def test_missing_keys_are_all_named():
    with pytest.raises(ConfigurationError, match="expected the keys b, c"):
        read_fields("x", {"a": 1}, {"one": "a", "two": "b", "three": "c", "four": "d"}, {"d": 4})
    found = read_fields("x", {"a": 1}, {"one": "a", "two": "a", "four": "d"}, {"d": 4})
    assert found == {"one": 1, "two": 1, "four": 4}


def test_activations_have_counterparts():
    names = {"gelu": "gelu", "gelu_new": "gelu_tanh"}
    assert read_activation("x", "gelu_new", "act", names) == "gelu_tanh"
    with pytest.raises(ConfigurationError, match="act: expected one of gelu, gelu_new, got None"):
        read_activation("x", None, "act", names)


def test_other_computations_are_refused():
    refuse_other_values("x", {"a": 2}, {"a": (1, 2), "b": (False,)})
    with pytest.raises(ConfigurationError, match="a: expected 1, got 3; b: expected False, got True"):
        refuse_other_values("x", {"a": 3, "b": True}, {"a": (1, 2), "b": (False,)})


def test_a_wrong_value_is_named():
    with pytest.raises(ConfigurationError, match="type x: layers: Field required"):
        validate_config("x", {"family": "encoder", "dim": 4})
