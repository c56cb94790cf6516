"""Promises of every pruning method."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.registry import choose, find, names
from clozeline.train.compression.pruning import Pruning
from tests.declarations import declared
from tests.distributed import RankPool
from tests.train.compression.pruning.pruned import pruned, train

METHODS = "clozeline.train.compression.pruning"


def case(name: str) -> dict[str, Any]:
    """`CASE` of a method's own test file: its options in a run of 8 steps, and keys of the run with a dot as `__`."""
    own: dict[str, Any] = declared("train.compression.pruning", name, "CASE", {})
    return own


@pytest.mark.parametrize("name", names(METHODS))
def test_a_method_names_its_paper_and_its_claim(name: str) -> None:
    kind = find(METHODS, name)
    assert issubclass(kind, Pruning)
    assert kind.__doc__
    assert is_dataclass(kind.Options)
    assert re.search(r"\(\d{4}\.\d{5}\)", kind.claim)


@pytest.mark.parametrize("name", names(METHODS))
def test_a_method_trains_and_its_states_are_those_of_checkpoints(name: str, one_rank: RankPool) -> None:
    own = case(name)
    ((losses, tensors),) = one_rank.run(train, pruned({"name": name, **own["prune"]}, **own.get("run", {})))
    assert len(losses) == 8
    added = {key for states in tensors.values() for key in states} - {"weight", "exp_avg", "exp_avg_sq"}
    assert added == find(METHODS, name).keys


@pytest.mark.parametrize("name", names(METHODS))
def test_a_method_refuses_what_it_does_not_go_together_with(name: str) -> None:
    own = case(name)
    prune, run = {"name": name, **own["prune"]}, own.get("run", {})
    ways: dict[str, dict[str, Any]] = {
        "model.quantization": {"model__quantization": "int8"},
        "model.adapter": {"model__adapter": {"name": "lora"}, "model__init_from": "elsewhere"},
        "model.share": {"model__share": {"groups": 1}},
        "hooks.average": {"hooks": ["average"]},
        "regularizer": {"regularizer": "l2_sp", "model__init_from": "elsewhere", "optimizer__weight_decay": 0.0},
        "distil": {"distil": {"teacher": "elsewhere"}},
        "zero.offload": {"zero__offload": "optimizer"},
        "compile": {"compile": True},
        "activation_checkpointing": {"activation_checkpointing": True},
        "optimizer.averages": {"optimizer": {"name": "nt_asgd"}, "evaluate": {"every": 2}},
        "optimizer.statistics": {"optimizer": {"name": "muon"}},
        "no model.init_from": {"model__init_from": None},
    }
    for key in find(METHODS, name).conflicts:
        shown = key if not key.startswith("optimizer.") else "optimizer.name="
        relation = f"needs {shown[3:]}" if shown.startswith("no ") else f"does not go together with {shown}"
        with pytest.raises(ConfigurationError, match=re.escape(f"prune: {name} {relation}")):
            pruned(prune, **{**run, **ways[key]})


def test_options_survive_a_saved_configuration() -> None:
    chosen = choose(METHODS, {"name": "magnitude", "sparsity": 0.25, "parameters": [".*query.*"]})
    assert choose(METHODS, chosen.plain()) == chosen
