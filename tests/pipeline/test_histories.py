"""A folder that lived through changes, kills and copies equals a fresh run, and nothing was made in
vain."""

import pytest

from tests.matrices import mark_slow_but
from tests.pipeline.history import History

STEPS = 6


@pytest.mark.parametrize("seed", mark_slow_but([1, 4], range(40)))
def test_any_history_ends_with_the_bytes_of_a_fresh_run(tmp_path, seed):
    """A message holds the seed and the steps; the same test runs them again."""
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
