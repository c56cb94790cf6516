"""Tables of a study: what verdicts say, what steps are worth, and minimal pairs with their baselines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.tools.experiments.multirun.study_plan import Ordering, Study
from clozeline.tools.experiments.multirun.study_scores import loss_lines, pair_lines, step_lines
from clozeline.tools.experiments.multirun.study_sets import Documents


def figures(accuracy: float, alike: float | None) -> dict[str, Any]:
    baselines = {"shorter": 0.25, "unigram": 0.5, "bigram": 0.75}
    return {"n": 200, "accuracy": accuracy, "ties": 0, "baselines": baselines, "correlation_with_bigram": alike}


def test_each_score_of_each_variant_is_a_line() -> None:
    one = [{"pairs": {"causal": figures(0.50, 0.9)}}, {"pairs": {"causal": figures(0.52, 0.7)}}]
    two = [{"pairs": {"pll": figures(0.4, None), "mntp": figures(0.6, 0.1)}}]
    assert list(pair_lines({"one": one, "two": two, "three": [{}]})) == [
        "minimal pairs, one by causal: 51.0 ± 1.4 % of 200; correlation with the bigram 0.80",
        "minimal pairs, two by pll: 40.0 % of 200",
        "minimal pairs, two by mntp: 60.0 % of 200; correlation with the bigram 0.10",
        "minimal pairs, baselines: shorter 25.0 %, unigram 50.0 %, bigram 75.0 %",
    ]
    assert not list(pair_lines({"three": [{}]}))


@pytest.mark.parametrize(("seeds", "said"), [(1, "one seed"), (3, "3 seeds")])
def test_the_table_says_how_many_seeds_a_claim_has(seeds: int, said: str) -> None:
    claim = Ordering(measure="masked", lower="plain", higher="mixed", said="said by nobody")
    study = Study(title="a study", flops=1e9, seeds=seeds, orderings=[claim], variants={})
    runs = {
        name: [{"steps": 1, "tokens": 8, "losses": {"masked": loss + seed / 100}} for seed in range(seeds)]
        for name, loss in (("plain", 3.0), ("mixed", 3.5))
    }
    first, *_, last = loss_lines(study, runs)
    assert first.endswith(f"{said}; nats on held-out rows")
    spread = "(one seed)" if seeds == 1 else "± 0.020"
    assert last == f"masked: plain below mixed by +0.500 {spread}. said by nobody"


def test_a_step_removes_documents_and_gains_nats() -> None:
    variants: Any = {"raw": SimpleNamespace(base=None), "filters": SimpleNamespace(base="raw")}
    left = {"raw": Documents(8, 1000, 1.0), "filters": Documents(6, 500, 3.0)}
    runs = {name: [{"losses": {"prose": loss, "leaked": 1.0}}] for name, loss in (("raw", 3.5), ("filters", 3.0))}
    lines = list(step_lines(variants, runs, left))
    assert [line.split() for line in lines[1:3]] == [["raw", "8"], ["filters", "6", "2", "0.500", "+2.0"]]
    gains = {"prose": "+0.500", "leaked": "+0.000"}
    assert lines[3:] == [f"{name}: filters gains {gain} (one seed) nats" for name, gain in gains.items()]
