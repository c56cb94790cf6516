"""Lists of layer types: what the types of test_key_map.py, which all have one, do not show."""

import doctest

import pytest

import clozeline.model.checkpoints._conversion.layer_types
from clozeline.model.checkpoints._conversion.layer_types import (
    FULL,
    SLIDING,
    read_layer_types,
    read_windows,
    write_layer_types,
    write_window,
)
from tests.model.small_models import small_config


def test_the_list_takes_precedence_over_the_usual_layers():
    listed = [SLIDING, FULL, FULL]
    plain = {"num_hidden_layers": 3}
    assert read_layer_types("qwen2", plain, lambda layer: layer == 1) == [FULL, SLIDING, FULL]
    assert read_layer_types("qwen2", plain | {"layer_types": listed}, lambda layer: True) == listed


def test_no_local_layer_needs_no_window():
    assert read_windows("qwen2", [FULL, FULL], None) == {}


@pytest.mark.parametrize("local", [{"global_every": 2}, {"layer_types": (FULL, SLIDING, FULL)}], ids=list)
def test_layers_and_window_are_written(local):
    config = small_config("decoder", layers=3, local={"window": 4, **local})
    assert (write_layer_types(config), write_window(config)) == ([FULL, SLIDING, FULL], 5)
    assert write_window(small_config("decoder")) is None
    assert write_window(small_config("decoder", local={"window": 4, "global_every": 1})) is None


def test_examples_in_docstrings():
    assert doctest.testmod(clozeline.model.checkpoints._conversion.layer_types).failed == 0
