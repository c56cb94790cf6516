"""Verdicts on losses of known distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from clozeline.configuration.config import validate
from clozeline.model.build import build_model
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.study_scores import loss_of, verdict
from clozeline.tools.runs.evaluation.heldout_score import batch_losses, heldout_score
from clozeline.train.configuration.config import TrainConfig
from tests.train.masked_set import plain_config, write_masked_sets


def runs(mean: float, draws: np.random.Generator, *, seeds: int = 3, spread: float = 0.0) -> list[np.ndarray]:
    """Return sums and counts of 60 batches of 10 to 20 labels of each run; the batches differ by the same in all runs.

    Args:
        mean: true loss of the variant, over seeds and rows.
        draws: source of what is of the variant alone.
        seeds: number of runs.
        spread: true deviation of a seed.
    """
    shared = np.random.default_rng(0)
    counts, hard = shared.integers(10, 20, 60).astype(float), shared.normal(0, 1, 60)
    hard += draws.normal(0, 0.05, 60)  # a variant is better on some rows than on others
    of_seeds = mean + draws.normal(0, spread, seeds)
    return [np.stack([(one + hard + draws.normal(0, 0.02, 60)) * counts, counts], axis=1) for one in of_seeds]


def spread_over_draws(lower: list[np.ndarray], higher: list[np.ndarray], seeds: int) -> np.ndarray:
    """Return 2,000 gains of a plain bootstrap: some seeds of each side, with replacement, then rows for all of them."""
    draws, gains = np.random.default_rng(5), []
    for _ in range(2000):
        rows = draws.integers(0, 60, 60)
        sides = []
        for found in (lower, higher):
            chosen = found if not seeds else [found[one] for one in draws.integers(0, len(found), seeds)]
            sides.append(np.mean([one[rows, 0].sum() / one[rows, 1].sum() for one in chosen]))
        gains.append(sides[1] - sides[0])
    return np.array(gains)


@pytest.mark.parametrize(
    ("lower", "higher", "word"), [(3.0, 3.2, "held"), (3.2, 3.0, "not held"), (3.0, 3.0, "undecided")]
)
def test_the_verdict_is_about_the_same_rows(lower: float, higher: float, word: str) -> None:
    """A fifth of the spread of the rows is decided, since both variants read the same ones."""
    draws = np.random.default_rng(2)
    sides = runs(lower, draws, spread=0.01), runs(higher, draws, spread=0.01)
    found, turned = verdict(*sides), verdict(*reversed(sides))
    assert found.word == word
    assert found.low < found.difference < found.high
    assert abs(found.difference - (higher - lower)) < 0.05
    assert (turned.difference, turned.low, turned.high) == pytest.approx((-found.difference, -found.high, -found.low))


def test_seeds_that_differ_leave_a_claim_undecided() -> None:
    """The rows alone would decide it: each run is better than each other one by nearly the same on all rows."""
    draws = np.random.default_rng(2)
    of_seeds = [(3.00, 3.10, 3.20), (3.08, 3.18, 3.28)]
    sides = [[one for mean in means for one in runs(mean, draws, seeds=1)] for means in of_seeds]
    low, high = np.percentile(spread_over_draws(sides[0], sides[1], 0), [2.5, 97.5])
    assert 0 < low < high < 0.2
    assert verdict(sides[0], sides[1]).word == "undecided"


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.1], ids=["rows", "both", "seeds"])
def test_the_standard_error_is_that_of_a_bootstrap_of_seeds_and_rows(spread: float) -> None:
    """k - 1 of k seeds are drawn: of k, their variance would be too small by (k - 1) / k (Rao and Wu 1988)."""
    draws = np.random.default_rng(3)
    sides = runs(3.0, draws, seeds=6, spread=spread), runs(3.1, draws, seeds=6, spread=spread)
    found = verdict(*sides)
    assert found.error == pytest.approx(spread_over_draws(*sides, 5).std(), rel=0.12)


def test_without_a_spread_of_rows_the_interval_is_that_of_welch() -> None:
    losses = [(3.00, 3.02, 3.07), (3.10, 3.11, 3.12, 3.16)]
    sides = [[np.tile([10 * one, 10.0], (60, 1)) for one in of_seeds] for of_seeds in losses]
    found, expected = verdict(sides[0], sides[1]), stats.ttest_ind(losses[1], losses[0], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


@pytest.mark.parametrize("spreads", [(0.04, 0.04), (0.04, 0.0)], ids=["equal", "of one side"])
def test_the_interval_holds_the_true_gain_as_often_as_it_says(spreads: tuple[float, float]) -> None:
    """Of 200 studies with three seeds, 95 % do; with an interval over rows alone, about half."""
    draws, ours, rows_alone = np.random.default_rng(4), 0, 0
    for _ in range(200):
        sides = runs(3.0, draws, spread=spreads[0]), runs(3.1, draws, spread=spreads[1])
        found = verdict(*sides)
        ours += found.low <= 0.1 <= found.high
        gaps = np.mean([[one[:, 0] / one[:, 1] for one in side] for side in sides], axis=1)
        error = np.std(gaps[1] - gaps[0], ddof=1) / np.sqrt(60)
        rows_alone += abs(found.difference - 0.1) <= 1.96 * error
    assert 0.92 * 200 <= ours <= 0.99 * 200
    assert rows_alone < 0.65 * 200


def test_many_rows_lend_no_confidence_to_few_seeds() -> None:
    """Welch's interval of two seeds, of which one side varies, is wider than that of rows and seeds together."""
    draws = np.random.default_rng(2)
    sides = [[one for mean in means for one in runs(mean, draws, seeds=1)] for means in ((3.0, 3.03), (3.13, 3.135))]
    found = verdict(sides[0], sides[1])
    losses = [[loss_of(one) for one in side] for side in sides]
    interval = stats.ttest_ind(losses[1], losses[0], equal_var=False).confidence_interval(0.95)
    assert found.low <= interval.low
    assert found.high >= interval.high
    assert found.word == "undecided"


def test_one_seed_is_said_with_the_verdict() -> None:
    draws = np.random.default_rng(2)
    for higher, word in ((3.2, "held over rows, one seed"), (3.0, "undecided over rows, one seed")):
        assert verdict(runs(3.0, draws, seeds=1), runs(higher, draws, seeds=1)).word == word
    assert verdict(runs(3.0, draws), runs(3.2, draws, seeds=1)).word == "held over rows, one seed"


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
