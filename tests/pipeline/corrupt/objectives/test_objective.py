"""Former names of options: refused in configurations, read in manifests."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from clozeline import registry
from clozeline.configuration.config import former_names, iter_renamed_keys
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corruption_cases import WORDS


def recorded(name: str, options: dict[str, Any]) -> Any:
    with former_names():
        return build_objective({"name": name, **options}, WORDS)


RENAMED = [
    (name, old, new)
    for name in registry.names("clozeline.pipeline.corrupt.objectives")
    for old, new in iter_renamed_keys(registry.find("clozeline.pipeline.corrupt.objectives", name).Options)
    if "." not in old
]


@pytest.mark.parametrize(("name", "old", "new"), RENAMED)
def test_a_former_name_is_refused_by_its_new_one_and_read_in_manifests(name: str, old: str, new: str) -> None:
    options = {
        field.name: field
        for field in dataclasses.fields(registry.find("clozeline.pipeline.corrupt.objectives", name).Options)
    }
    assert old not in options
    default: Any = options[new].default
    value = default.default if hasattr(default, "default") else default
    with pytest.raises(ConfigurationError, match=f"{name}: key '{old}' is called '{new}' now"):
        build_objective({"name": name, old: value}, WORDS)
    assert recorded(name, {old: value}).options == build_objective({"name": name}, WORDS).options


def test_former_names_of_steps_and_parts_are_read() -> None:
    step = {"name": "text_infilling", "rate": 0.2, "mean_length": 4.0}
    composed = recorded("composition", {"steps": [step]})
    assert composed.steps[0].options.noise_density == 0.2
    assert composed.steps[0].options.poisson_lambda == 4.0
    part = {"label": "a", "weight": 1.0, "objective": {"name": "span_corruption", "rate": 0.5, "mean_length": 8.0}}
    mixed = recorded("mixture", {"parts": [part]})
    assert mixed.parts[0].options.mean_noise_span_length == 8.0
    with pytest.raises(ConfigurationError, match="'rate' is called 'noise_density' now"):
        build_objective({"name": "mixture", "parts": [part]}, WORDS)


def test_unknown_options_of_a_manifest_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'colour'"):
        recorded("masked_lm", {"colour": "red"})
