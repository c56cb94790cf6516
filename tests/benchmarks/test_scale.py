"""The parts of the simulated scale, small: each runs the real code on what it made up, and its figures have names."""

import pytest

from benchmarks.scale import _PARTS


@pytest.mark.parametrize(
    ("part", "count", "figures"),
    [
        ("start", 20, {"open s", "list and compare s", "memory MiB"}),
        ("checkpoint", 3, {"write s", "read s", "copies s", "prune five s", "memory MiB"}),
    ],
)
def test_each_part_measures_the_amount_that_it_is_given(tmp_path, part, count, figures):
    measured = _PARTS[part][0](tmp_path, count)
    assert measured.keys() == figures
    assert all(value >= 0 for name, value in measured.items() if name.endswith(" s"))
    made = {
        "start": lambda: len(list(tmp_path.glob("*.arrow"))) == count + 1,
        "checkpoint": lambda: len(list(tmp_path.glob("step-*"))) == 3,
    }
    assert made[part]()
