"""Scores of sets against rows that are judged one by one."""

import numpy as np
import pytest
import torch

from clozeline.configuration.config import validate
from clozeline.model.build import build_model
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.evaluation.heldout_score import heldout_score, label_loss
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.collate import Collate
from tests.train.masked_set import plain_config, write_masked_sets


def test_nats_are_those_of_all_labels(tmp_path):
    """A mean over labels, not over rows or batches, which have different numbers of them."""
    shards = open_shards(write_masked_sets(tmp_path).parents[1] / "heldout")
    config = validate(TrainConfig, plain_config(data__shards="x", output="y"), "")
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids).eval()
    collate = Collate.from_manifest(shards.manifest)
    total = count = 0.0
    first_rows = (0.0, 0.0)
    with torch.no_grad():
        for block in range(len(shards.index)):
            rows = shards.read_block(block)
            for row in range(len(rows)):
                columns = {name: rows.columns[name].take(np.array([row])) for name in collate.columns}
                (loss,) = model(collate(columns, np.ones(1, np.float32))).values()
                total, count = total + float(loss.total), count + float(loss.count)
                first_rows = (total, count) if block == 0 and row == 4 else first_rows
    assert heldout_score(model, shards) == ("nats", pytest.approx(total / count, rel=1e-5))
    assert heldout_score(model, shards, 5) == ("nats", pytest.approx(first_rows[0] / first_rows[1], rel=1e-5))
    # variants are compared on the same labels, whichever share of the gradient a row had in training
    for head in model.heads.values():
        head.normalise = "row"
    assert heldout_score(model, shards)[1] != pytest.approx(total / count, rel=1e-6)
    assert label_loss(model, shards, 10**6) == pytest.approx(total / count, rel=1e-5)
    assert label_loss(model, shards, 5) == pytest.approx(first_rows[0] / first_rows[1], rel=1e-5)
