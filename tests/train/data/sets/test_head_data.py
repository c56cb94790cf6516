"""Heads that would learn something else from a set than they are made for are refused before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from tests.shard_sets import change_manifest
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets

PAIRED = {"similarity": {"group_size": 2}}


def opened(folder: Path, shards: Any, heads: dict[str, Any], **changes: Any) -> Any:
    from clozeline.configuration.config import load_config

    changes = {"model__heads": heads, "model__position": {"maximum": 64}, "evaluate__max_rows": 0, **changes}
    if isinstance(shards, list):
        changes["data__weights"] = [1.0] * len(shards)
        shards = [str(path) for path in shards]
    written = write_config(folder / "train.yaml", folder, folder / "run", **changes | {"data__shards": shards})
    return open_datasets(load_config(TrainConfig, written, []))


def test_an_order_of_prediction_needs_a_query_stream(tmp_path: Path) -> None:
    """An encoder of one stream would see what it predicts; `data.ignore` does not help it."""
    shards = str(write_objective_sets(tmp_path, "permuted_lm", rows=8, heldout=2))
    with pytest.raises(ConfigurationError, match=r"prediction_order .* family encoder .* set model.family to xlnet"):
        opened(tmp_path, shards, {"masked_lm": 1.0}, data__ignore=["prediction_order"])
    streams = {"family": "xlnet", "position": {"kind": "sinusoidal"}, "bias": {"qkv": False, "out": False}}
    changes = {f"model__{key}": value for key, value in streams.items()}
    assert opened(tmp_path, shards, {"masked_lm": {"transform": False}}, **changes).rows > 0


def test_a_pool_of_pairs_needs_segments(tmp_path: Path) -> None:
    shards = str(write_objective_sets(tmp_path, "masked_lm", rows=8, heldout=2))
    heads = {"masked_lm": 1.0, "classification": {"pool": "pair", "classes": 2}}
    with pytest.raises(ConfigurationError, match=r"heads.classification.pool: pair compares .* the set has none"):
        opened(tmp_path, shards, heads)


@pytest.mark.parametrize(
    ("name", "heads", "ignore"),
    [
        ("replaced_token_detection", {"token": 1.0}, []),
        ("corrective_lm", {"corrective": 1.0, **PAIRED}, []),
        ("corrective_lm", {"masked_lm": 1.0, "corrective": 1.0}, ["crop_start", "crop_length"]),
    ],
)
def test_heads_that_judge_a_generator(tmp_path: Path, name: str, heads: dict[str, Any], ignore: list[str]) -> None:
    shards = str(write_objective_sets(tmp_path, name, rows=8, heldout=2))
    with pytest.raises(ConfigurationError, match=r"judges the tokens of a generator.*replacement: uniform"):
        opened(tmp_path, shards, heads, data__ignore=ignore)
    assert opened(
        tmp_path, shards, {"masked_lm": 1.0}, data__ignore=["token", "corrective", "crop_start", "crop_length"]
    )


def test_a_generator_of_the_family_s_own(tmp_path: Path) -> None:
    """Rows for masked LM, or for a generator, are enough; rows whose tokens were replaced before have none for it."""
    generator = {"layers": 1, "dim": 8, "attention_heads": 2, "ffn_dim": 8}
    family = {"model__family": "replaced_tokens", "model__generator": generator}
    both = {"masked_lm": 1.0, "token": 50.0}
    for name in ("masked_lm", "replaced_token_detection"):
        shards = write_objective_sets(tmp_path / name, name, rows=8, heldout=2)
        assert opened(tmp_path, str(shards), both, **family)
    with pytest.raises(ConfigurationError, match=r"heads.token would learn from labels that are for masked_lm"):
        opened(tmp_path, str(tmp_path / "masked_lm" / "train" / "manifest.json"), both)
    drawn = write_objective_sets(tmp_path / "drawn", "replaced_token_detection", 8, 2, replacement="uniform")
    with pytest.raises(ConfigurationError, match=r"heads.masked_lm would learn from labels that are for token"):
        opened(tmp_path, str(drawn), both, **family)


def test_rows_made_for_another_head(tmp_path: Path) -> None:
    masked = write_objective_sets(tmp_path / "m", "masked_lm", rows=8, heldout=2)
    replaced = write_objective_sets(
        tmp_path / "r", "replaced_token_detection", rows=8, heldout=2, replacement="uniform"
    )
    with pytest.raises(
        ConfigurationError, match=r"m/train.*heads.token would learn from labels that are for masked_lm"
    ):
        opened(tmp_path, [masked, replaced], {"masked_lm": 1.0, "token": 1.0})
    pairs = write_objective_sets(tmp_path / "p", "sentence_comparison", rows=8, heldout=2)
    found = opened(tmp_path, [masked, pairs], {"masked_lm": 1.0, **PAIRED})
    assert found.rows == 16


def test_columns_that_a_head_learns_from(tmp_path: Path) -> None:
    shards = write_objective_sets(tmp_path, "masked_lm", rows=8, heldout=2)
    change_manifest(shards.parent, lambda plain: plain["objective"].update(heads=["masked_lm", "sentence"]))
    with pytest.raises(ConfigurationError, match=r"heads.sentence needs sentence_label, and these rows have no column"):
        opened(tmp_path, str(shards), {"masked_lm": 1.0, "sentence": 1.0})


def test_columns_of_heads_that_are_not_trained(tmp_path: Path) -> None:
    shards = str(write_objective_sets(tmp_path, "span_boundary", rows=8, heldout=2))
    with pytest.raises(ConfigurationError, match=r"data.ignore=\[span_starts, span_lengths\]"):
        opened(tmp_path, shards, {"masked_lm": 1.0})
    assert opened(tmp_path, shards, {"masked_lm": 1.0}, data__ignore=["span_starts", "span_lengths"])
