"""Verdicts on losses of known distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.build import build_model
from pipeline.config import validate
from pipeline.shards import open_shards
from tests.train.masked_set import plain_config, write_masked_sets
from tools.evaluation.heldout_score import heldout_score
from tools.studies.scores import batch_losses, loss_of, verdict
from train.config import TrainConfig


def runs(mean: float, seed: int, count: int = 2) -> list[np.ndarray]:
    """Return sums and counts of 60 batches of 10 to 20 labels; the batches differ by the same amounts in all runs."""
    shared = np.random.default_rng(0)
    counts, hard = shared.integers(10, 20, 60).astype(float), shared.normal(0, 1, 60)
    own = np.random.default_rng(seed)
    return [np.stack([(mean + hard + own.normal(0, 0.05, 60)) * counts, counts], axis=1) for _ in range(count)]


@pytest.mark.parametrize(
    ("lower", "higher", "word"), [(3.0, 3.2, "held"), (3.2, 3.0, "not held"), (3.0, 3.0, "undecided")]
)
def test_the_verdict_is_about_the_same_rows(lower: float, higher: float, word: str) -> None:
    """A tenth of the spread of the rows is decided, since both variants read the same ones."""
    found = verdict(runs(lower, 1), runs(higher, 2))
    assert found.word == word
    assert found.low < found.gain < found.high
    assert abs(found.gain - (higher - lower)) < 0.05
    assert found.high - found.low < 0.1
    turned = verdict(runs(higher, 2), runs(lower, 1))
    assert (turned.gain, turned.low, turned.high) == pytest.approx((-found.gain, -found.high, -found.low))


def test_a_loss_weighs_batches_by_their_counts() -> None:
    assert loss_of(np.array([[10.0, 1.0], [10.0, 9.0]])) == 2.0


def test_rows_that_weighed_alike_in_training_are_measured_by_labels(tmp_path: Path) -> None:
    """Variants are compared on the same labels, whichever share of the gradient a row had."""
    shards = open_shards(write_masked_sets(tmp_path).parents[1] / "heldout")
    config: TrainConfig = validate(TrainConfig, plain_config(data__shards="x", output="y"), "")
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids).eval()
    by_label = heldout_score(model, shards)[1]
    for head in model.heads.values():
        head.normalise = "row"
    assert heldout_score(model, shards)[1] != pytest.approx(by_label, rel=1e-6)
    assert loss_of(np.array(batch_losses(model, shards, 10**6))) == pytest.approx(by_label, rel=1e-5)
