"""Objectives of manifests."""

from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.tools.shards.provenance.objective import rebuild_objective
from tests.pipeline.corruption_cases import vocabulary

FACTS = {"label": "a", "architecture": "encoder", "heads": ("masked_lm",), "frame": {"decoder_start": None}}


def test_options_are_those_of_the_manifest() -> None:
    facts = ObjectiveFacts(name="masked_lm", options={"mask_rate": 0.25, "max_length": 64}, **FACTS)
    objective = rebuild_objective(facts, vocabulary())
    assert (objective.options.mask_rate, objective.options.max_length, objective.label) == (0.25, 64, "a")


def test_unknown_options_of_a_manifest_are_refused() -> None:
    facts = ObjectiveFacts(name="masked_lm", options={"colour": "red"}, **FACTS)
    with pytest.raises(ConfigurationError, match="unknown key 'colour'"):
        rebuild_objective(facts, vocabulary())


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'masked_lm'"):
        rebuild_objective(ObjectiveFacts(name="masked_ml", **FACTS), vocabulary())
