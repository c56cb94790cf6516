"""Minimal pairs of studies: means over seeds, and baselines of the texts that were learnt."""

from __future__ import annotations

from typing import Any

from clozeline.tools.experiments.multirun.pair_accuracy import pair_table


def figures(accuracy: float, alike: float | None) -> dict[str, Any]:
    baselines = {"shorter": 0.25, "unigram": 0.5, "bigram": 0.75}
    return {"n": 200, "accuracy": accuracy, "ties": 0, "baselines": baselines, "correlation_with_bigram": alike}


def test_each_score_of_each_variant_is_a_line() -> None:
    one = [{"pairs": {"causal": figures(0.50, 0.9)}}, {"pairs": {"causal": figures(0.52, 0.7)}}]
    two = [{"pairs": {"pll": figures(0.4, None), "mntp": figures(0.6, 0.1)}}]
    assert list(pair_table({"one": one, "two": two, "three": [{}]})) == [
        "minimal pairs, one by causal: 51.0 ± 1.4 % of 200; correlation with the bigram 0.80",
        "minimal pairs, two by pll: 40.0 % of 200",
        "minimal pairs, two by mntp: 60.0 % of 200; correlation with the bigram 0.10",
        "minimal pairs, baselines: shorter 25.0 %, unigram 50.0 %, bigram 75.0 %",
    ]
    assert not list(pair_table({"three": [{}]}))
