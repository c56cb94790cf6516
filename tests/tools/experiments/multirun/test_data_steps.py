"""Shares of dirt: against a count by hand of random corpora."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.data_steps import KINDS, Fact, Key, Left, compare_steps, step_lines


def corpus(seed: int) -> tuple[dict[Key, Fact], Left, Left]:
    """Return the truth of 200 documents, a base without some of them, and what a step leaves of it."""
    draws = np.random.default_rng(seed)
    truth: dict[Key, Fact] = {}
    for number in range(200):
        kind = KINDS[int(draws.integers(len(KINDS)))]
        origin = int(draws.integers(40)) if kind in ("clean", "exact", "near", "boilerplate", "leak") else -1
        truth["part", number] = Fact(kind, origin, ("planted",) if kind in ("boilerplate", "leak") else ())
    base = {key: "planted text" if draws.random() < 0.8 else "text" for key in truth if draws.random() < 0.9}
    left = {key: text if draws.random() < 0.7 else "text" for key, text in base.items() if draws.random() < 0.6}
    return truth, Left(base, 1.0), Left(left, 3.0)


@pytest.mark.parametrize("seed", range(20))
def test_precision_and_recall_are_those_of_a_count_by_hand(seed: int) -> None:
    truth, base, left = corpus(seed)
    removed = [key for key in base.texts if key not in left.texts]
    # remove one after the other: a copy is dirt while its group has another member, in the base or left
    groups: dict[int, int] = {}
    for key in base.texts:
        if truth[key].kind in ("clean", "exact", "near", "boilerplate"):
            groups[truth[key].origin] = groups.get(truth[key].origin, 0) + 1
    dirt = 0
    for key in removed:
        if truth[key].kind in ("language", "salad", "advert"):
            dirt += 1
        elif truth[key].kind == "leak":
            dirt += "planted" in base.texts[key]
        elif groups[truth[key].origin] > 1:
            groups[truth[key].origin] -= 1
            dirt += 1
    step = compare_steps(base, left, truth, ["salad", "advert"])
    assert step.precision == dirt / len(removed)
    aimed = [key for key in base.texts if truth[key].kind in ("salad", "advert")]
    assert step.recall == sum(key in removed for key in aimed) / len(aimed)
    assert (step.documents, step.removed, step.seconds) == (len(left.texts), len(removed), 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_recall_of_copies_and_lines(seed: int) -> None:
    truth, base, left = corpus(seed)

    def superfluous(keys: Any, kinds: tuple[str, ...]) -> int:
        origins = [truth[key].origin for key in keys if truth[key].kind in kinds]
        return len(origins) - len(set(origins))

    for target, kinds in {"exact": ("clean", "exact"), "near": ("clean", "exact", "near", "boilerplate")}.items():
        before, after = superfluous(base.texts, kinds), superfluous(left.texts, kinds)
        assert compare_steps(base, left, truth, [target]).recall == pytest.approx((before - after) / before)
    for kind in ("boilerplate", "leak"):
        lines = [
            sum("planted" in text for key, text in some.texts.items() if truth[key].kind == kind)
            for some in (base, left)
        ]
        assert compare_steps(base, left, truth, [kind]).recall == (lines[0] - lines[1]) / lines[0]


def test_a_truth_of_another_corpus_is_refused() -> None:
    truth, base, left = corpus(0)
    with pytest.raises(ConfigurationError, match=r"expected a row for other, byte 7, got none"):
        compare_steps(Left({("other", 7): "text"}, 0), left, truth)
    assert compare_steps(base, left).precision is None


def test_verdicts_are_about_the_first_measure() -> None:
    draws = np.random.default_rng(0)
    truth, base, left = corpus(1)
    variants: Any = {
        "raw": SimpleNamespace(base=None, targets=[]), "filters": SimpleNamespace(base="raw", targets=["salad"])
    }  # fmt: skip

    def runs(loss: float) -> list[dict[str, Any]]:
        batches = [[[loss + draws.normal(0, 0.01), 1.0] for _ in range(30)] for _ in range(3)]
        return [{"losses": {"prose": rows, "leaked": rows}} for rows in batches]

    for loss, word in ((3.0, "pays"), (4.0, "costs"), (3.5, "undecided")):
        lines = list(
            step_lines(variants, {"raw": runs(3.5), "filters": runs(loss)}, {"raw": base, "filters": left}, truth)
        )
        assert lines[-2].startswith("prose: filters gains ")
        assert lines[-2].endswith(word)
        assert lines[-1].startswith("leaked: filters gains ")
        assert lines[-1].endswith("]")
