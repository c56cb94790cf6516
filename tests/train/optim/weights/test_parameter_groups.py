from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.model.build import add_adapter, build_model
from clozeline.model.configuration.position import PositionConfig
from clozeline.registry import names
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.weights.parameter_groups import depths_below_heads, parameter_groups
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.model.checkpoints.published import saved
from tests.model.small_models import SPELLINGS, VOCABULARY, small_config
from tests.train.masked_set import FIRST_WORD, WORDS, write_config, write_masked_sets

LEARNED = PositionConfig(kind="learned", maximum=16)


def small() -> nn.Module:
    model = nn.ModuleDict(
        {"table": nn.Embedding(7, 4), "dense": nn.Linear(4, 4), "norm": nn.LayerNorm(4), "out": nn.Linear(4, 7)}
    )
    model["out"].weight = model["table"].weight
    model["dense"].bias.requires_grad_(False)
    return model


def test_every_trainable_parameter_once() -> None:
    model = small()
    groups = parameter_groups(model, 0.1)
    named = {id(p): name for name, p in model.named_parameters()}
    found = {group["name"]: [named[id(p)] for p in group["params"]] for group in groups}
    assert found == {"decay": ["table.weight", "dense.weight"], "no_decay": ["norm.weight", "norm.bias", "out.bias"]}
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]


def test_empty_group_is_left_out() -> None:
    assert [group["name"] for group in parameter_groups(nn.Linear(2, 2, bias=False), 0.1)] == ["decay"]


def test_scalar_parameter_is_refused() -> None:
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ConfigurationError, match=r"scale has no dimension: give it the shape \[1\]"):
        parameter_groups(model, 0.0)


def test_depths_are_counted_from_the_heads() -> None:
    """Two layers, tables below them, heads and a final norm above; each stack counts its own layers."""
    config = small_config("encoder_decoder", layers=2, decoder_layers=3, final_norm=True, position=LEARNED)
    found = depths_below_heads(build_model(config, VOCABULARY, {"pad": 0}))
    shortened = {re.sub(r"(layers\.\d+)\..*", r"\1", name): depth for name, depth in found.items()}
    assert shortened == {
        "family.tokens.weight": 4,
        "family.encoder.position.table.weight": 4,
        "family.encoder.layers.0": 2,
        "family.encoder.layers.1": 1,
        "family.encoder.norm.weight": 0,
        "family.decoder.position.table.weight": 4,
        "family.decoder.layers.0": 3,
        "family.decoder.layers.1": 2,
        "family.decoder.layers.2": 1,
        "family.decoder.norm.weight": 0,
    }


@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_groups_by_depth_hold_every_parameter_once(family: str) -> None:
    model = build_model(small_config(family), VOCABULARY, {"pad": 0}, SPELLINGS)
    groups = parameter_groups(model, 0.1, by_depth=True)
    depths = depths_below_heads(model)
    found = {id(p): (group["depth"], group["weight_decay"]) for group in groups for p in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(found)
    assert found == {id(p): (depths[n], 0.1 if p.ndim >= 2 else 0.0) for n, p in model.named_parameters()}
    assert len({group["name"] for group in groups}) == len(groups) <= 2 * (max(depths.values()) + 1)
    assert {group["depth"] for group in groups} >= {1, max(depths.values())}


@pytest.mark.parametrize("family", ["encoder", "xlnet"])
def test_matrices_of_layers_are_apart_for_those_who_ask(family: str) -> None:
    """Tables, also plain parameters that are tables, and heads stay in `decay`."""
    model = build_model(small_config(family), VOCABULARY, {})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, 0.1, by_depth=False, matrices_apart=True)
    found = {group["name"]: {names[id(p)] for p in group["params"]} for group in groups}
    plain = {group["name"]: {names[id(p)] for p in group["params"]} for group in parameter_groups(model, 0.1)}
    assert list(found) == ["matrix", "decay", "no_decay"]
    assert found["no_decay"] == plain["no_decay"]
    assert found["matrix"] | found["decay"] == plain["decay"]
    tables = (".tokens.weight", ".table.weight", ".types.weight", ".segments")
    expected = {n for n in plain["decay"] if ".layers." in n and not n.endswith(tables)}
    assert found["matrix"] == expected
    assert len(found["matrix"]) >= 12


def test_parameters_with_another_rate_are_apart() -> None:
    model = build_model(small_config("decoder"), VOCABULARY, {}, seed=1)
    adapter = add_adapter(model, "own", {"name": "lora", "rank": 2, "rate_ratio": 4.0})
    groups = parameter_groups(model, 0.1)
    assert {group["name"]: group["rate"] for group in groups} == {"decay": 1.0, "decay.fast": 4.0, "no_decay": 1.0}
    (fast,) = [group for group in groups if group["name"] == "decay.fast"]
    assert {id(p) for p in fast["params"]} == {id(p) for n, p in adapter.named_parameters() if n.endswith(".b")}


def start(world: World, config: Path) -> int:
    return run(load_config(TrainConfig, config), joined=world)


def test_the_first_adamw_step_is_as_large_as_the_rate(tmp_path: Path) -> None:
    """AdamW's first step is the learning rate in each coordinate, times the ratio; B starts at 0."""
    saved(tmp_path / "base", "bert", vocab_size=FIRST_WORD + WORDS, max_position_embeddings=32, pad_token_id=0)
    sets, found, pool = write_masked_sets(tmp_path, rows=48), {}, RankPool(1)
    for ratio in (1.0, 4.0):
        adapter = {"name": "lora", "rank": 2, "rate_ratio": ratio}
        keys: dict[str, Any] = {
            "model": {"init_from": str(tmp_path / "base"), "adapter": adapter},
            "steps": 1,
            "evaluate__max_rows": 0,
        }
        config = write_config(tmp_path / f"{ratio}.yaml", sets, tmp_path / str(ratio), **keys)
        assert pool.run(start, config) == [0]
        directory, index = find_checkpoint(tmp_path / str(ratio), None)
        found[ratio] = {name: tensor for name, tensor in read_weights(directory, index).items() if name.endswith(".b")}
    pool.close()
    for name, tensor in found[1.0].items():
        assert tensor.abs().max() > 0
        assert torch.allclose(found[4.0][name], 4 * tensor, rtol=1e-4, atol=1e-9)
