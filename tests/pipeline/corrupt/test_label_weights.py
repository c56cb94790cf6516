"""Weights of labels and places of prediction, from the recipe to the manifest and the blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_sets import recipe, run_stage, write_token_set


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_drawn_rates_are_stored_with_their_weights(tmp_path: Path, container: str) -> None:
    write_token_set(tmp_path, [6000, 9000, 40], words=vocabulary(1000))
    uniform = {"name": "masked_lm", "label": "bound", "max_length": 34, "mask_rate": {"uniform": [0.0, 1.0]},
               "predict_from": "previous", "variants": 4, "container": container}  # fmt: skip
    causal = {"name": "causal_lm", "label": "causal", "max_length": 34, "separator": "sep", "architecture": "encoder"}
    made = recipe(tmp_path, [uniform, causal], heldout=0.0)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    shards = open_shards(tmp_path / "corrupt/bound/train")
    facts = shards.manifest.objective
    assert facts is not None
    assert (facts.options["mask_rate"], facts.frame.predict_from) == ({"uniform": [0.0, 1.0]}, "previous")
    blocks = [shards.read_block(block).columns for block in range(len(shards.index))]
    for columns in blocks:
        labels, counts = columns["label_ids"].lengths, columns["label_count"].values
        assert columns["label_weight"].values.dtype == np.float32
        assert (columns["label_weight"].values == (counts / labels).astype(np.float32)).all()
    assert len({int(n) for columns in blocks for n in columns["label_ids"].lengths}) > 20
    samples = tmp_path / "group" / shards.manifest.parents[0].name
    assert "examples restored" in validate(tmp_path / "corrupt/bound/train/manifest.json", samples)

    other = open_shards(tmp_path / "corrupt/causal/train")
    assert other.manifest.parents == shards.manifest.parents, "both read one sample set"
    assert other.manifest.objective is not None
    assert other.manifest.objective.frame.predict_from == "previous"
    assert {int(mode) for mode in other.read_block(0).columns["attention"].values} == {1}
