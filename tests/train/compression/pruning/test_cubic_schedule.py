"""Values of the cubic schedule, against the formula of the paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.train.compression.pruning._cubic_schedule import CubicOptions


@pytest.mark.parametrize(("step", "sparsity"), [(0, 0.0), (25, 0.5203), (50, 0.7875), (75, 0.8859), (100, 0.9)])
def test_the_values_of_a_schedule_over_100_steps(step: int, sparsity: float) -> None:
    assert 0.9 * CubicOptions(end=100).progress(step, 100) == pytest.approx(sparsity, abs=5e-5)


@given(st.integers(0, 50), st.integers(1, 60), st.integers(1, 20), st.integers(1, 150))
def test_progress_is_the_formula_of_the_paper(start: int, length: int, every: int, step: int) -> None:
    """s_t = s_f + (s_i - s_f) (1 - (t - t0) / (n dt))^3 with s_i = 0 and s_f = 1."""
    options, last = CubicOptions(start=start, end=start + length, every=every), start + length
    value = options.progress(step, last)
    if step <= start:
        assert value == 0.0
    elif step >= last:
        assert value == 1.0
    else:
        assert value == pytest.approx(1 + (0 - 1) * (1 - (step - start) / length) ** 3)
    due = [t for t in range(200) if options.is_due(t, last)]
    assert (due[0], due[-1]) == (start, last)
    assert all((t - start) % every == 0 for t in due[:-1])


def test_the_end_defaults_to_two_thirds_and_is_within_the_run() -> None:
    assert CubicOptions().last_step(9) == 6
    assert CubicOptions().last_step(1) == 1
    assert CubicOptions(start=3, end=3).last_step(9) == 3
    with pytest.raises(ConfigurationError, match=r"prune\.end: expected at most 9, .* got 10"):
        CubicOptions(end=10).last_step(9)
    with pytest.raises(ConfigurationError, match=r"prune\.start: expected at most 9, .* got 12"):
        CubicOptions(start=12).last_step(9)
    with pytest.raises(ValueError, match="end: expected start 5 or a later step, got 4"):
        CubicOptions(start=5, end=4)
