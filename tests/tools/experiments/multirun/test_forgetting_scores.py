"""Forgetting and backward transfer against a plain computation, and the table."""

from __future__ import annotations

import doctest
import statistics

import numpy as np
import pytest

import clozeline.tools.experiments.multirun.forgetting_scores
from clozeline.tools.experiments.multirun.forgetting_scores import outcome, summary, summary_lines


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(clozeline.tools.experiments.multirun.forgetting_scores).failed == 0


@pytest.mark.parametrize("rises", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_are_those_of_a_plain_computation(rises: bool, first: int) -> None:
    """Four tasks at random; with `first` 0 the first is learned before the first stage."""
    draw = np.random.default_rng(3)
    for _ in range(20):
        learned = [task + first for task in range(4)]
        matrix = draw.random((4 + first, 4))
        end = len(matrix) - 1
        found = outcome(matrix.tolist(), learned, [rises] * 4)
        sign = 1 if rises else -1
        lost, changed = [], []
        for task in range(3):
            best = max(sign * matrix[stage, task] for stage in range(learned[task], end))
            lost.append(best - sign * matrix[end, task])
            changed.append(sign * (matrix[end, task] - matrix[learned[task], task]))
        assert found.forgetting == pytest.approx(lost)
        assert found.backward_transfer == pytest.approx(sum(changed) / 3)
        assert found.last == matrix[end, 3]


def test_a_task_alone_forgets_nothing() -> None:
    found = outcome([[None], [0.8]], [1], [True])
    assert (found.forgetting, found.backward_transfer, found.last) == ([], None, 0.8)


def test_the_table_has_means_over_seeds() -> None:
    matrices = {
        "plain": [[[2.0, None], [3.0, 0.9]], [[2.0, None], [3.5, 0.7]]],
        "replay": [[[2.0, None], [2.1, 0.8]]],
    }
    found = summary(matrices, ["novels", "sst2"], [0, 1], [False, True])
    figures = found["plain"]["figures"]
    assert figures["forgetting of novels"]["seeds"] == [1.0, 1.5]
    assert figures["forgetting of novels"]["mean"] == 1.25
    assert figures["forgetting of novels"]["deviation"] == pytest.approx(statistics.stdev([1.0, 1.5]))
    assert figures["backward transfer"]["mean"] == -1.25
    assert figures["last task"]["mean"] == pytest.approx(0.8)
    lines = [*summary_lines(found, ["novels", "sst2"], ["before", "after sst2"], ["nats", "accuracy"])]
    assert lines[0] == "plain, 2 seeds"
    assert lines[1].split() == ["novels", "(nats)", "sst2", "(accuracy)"]
    assert lines[2].split() == ["before", "2.0000", "-"]
    assert lines[3].split() == ["after", "sst2", "3.2500", "0.8000"]
    assert lines[-2].startswith("plain   forgetting of novels 1.2500 ± 0.3536, backward transfer -1.2500 ± 0.3536")
    assert lines[-1] == "replay  forgetting of novels 0.1000, backward transfer -0.1000, last task 0.8000"
