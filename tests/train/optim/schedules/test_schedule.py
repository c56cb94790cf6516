"""Schedules: their values by hand, and features of all: the warm-up, the horizon, and no state."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.train.registries import SCHEDULES
from tests.contracts import contract
from tests.declarations import declared
from tests.refusals import refused

WARM = [name for name in SCHEDULES.available() if name != "slanted_triangular"]
"""Schedules that rise by a warm-up."""
HALF = math.sqrt(2) / 4


def case(name):
    """`CASE` of a schedule's own test file: the options that have no default."""
    return declared(SCHEDULES.package, name, "CASE", {})


def rates(steps, last, **options):
    """The multipliers of steps 1 to `last` of a schedule that ends at `steps`."""
    schedule = SCHEDULES.resolve(options).build(steps)
    return [schedule(step) for step in range(1, last + 1)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"name": "constant"}, [1, 1, 1, 1, 1]),
        ({"name": "linear"}, [0.75, 0.5, 0.25, 0, 0]),
        ({"name": "cosine", "final": 0.0}, [0.5 + HALF, 0.5, 0.5 - HALF, 0, 0]),
        ({"name": "polynomial", "power": 2}, [0.5625, 0.25, 0.0625, 0, 0]),
        (
            {
                "name": "polynomial",
                "power": 1,
                "final": 0.2,
            },
            [0.8, 0.6, 0.4, 0.2, 0.2],
        ),
        ({"name": "inverse_sqrt"}, [math.sqrt(2 / step) for step in range(3, 8)]),
        (
            {"name": "wsd", "decay": 0.5},
            [
                1,
                *(1 - math.sqrt(n / 3) for n in (1, 2, 3, 3)),
            ],
        ),
        ({"name": "wsd", "decay": 1.0}, [1 - math.sqrt(n / 4) for n in (1, 2, 3, 4, 4)]),
        (
            {"name": "wsd", "decay": 0.5, "final": 0.1},
            [
                1,
                *(1 - 0.9 * math.sqrt(n / 3) for n in (1, 2, 3, 3)),
            ],
        ),
        (
            {"name": "wsd", "decay": 0.5, "final": 0.1, "fall": "line"},
            [1, 0.7, 0.4, 0.1, 0.1],
        ),
        ({"name": "wsd", "decay": 0.5, "fall": "cosine"}, [1, 0.75, 0.25, 0, 0]),
        (
            {"name": "cosine", "final": 0.3, "cooldown": 0.34},
            [0.3 + 0.7 * (0.5 + HALF), 0.3, 0.15, 0, 0],
        ),
        (
            {"name": "wsd", "decay": 0.5, "decay_from": 1},
            [1 - math.sqrt(n / 4) for n in (1, 2, 3, 4, 4)],
        ),
        (
            {"name": "wsd", "decay": 0.9, "decay_from": 4},
            [
                1,
                1,
                *(1 - math.sqrt(n / 2) for n in (1, 2, 2)),
            ],
        ),
    ],
)
def test_after_a_warmup_of_two_steps_come_these_values(options, expected):
    """Horizon 6: steps 3 to 6, and one beyond it."""
    assert rates(6, 7, **options, warmup=2) == pytest.approx([0.5, 1.0, *expected])


def test_the_slanted_triangle_is_the_paper_s():
    """η = 0.01 over 1,000 steps: the figures of equation 3 with its cut of a tenth and ratio of
    32."""
    found = rates(1000, 1500, name="slanted_triangular")

    for step, rate in {
        50: 5.15625e-3,
        100: 1e-2,
        550: 5.15625e-3,
        1000: 3.125e-4,
        1500: 3.125e-4,
    }.items():
        assert 0.01 * found[step - 1] == pytest.approx(rate)

    assert rates(1000, 1500, name="slanted_triangular", warmup=100) == found, (
        "a warm-up is the rise"
    )

    with refused("warmup_from: set ratio instead: 8"):
        rates(1000, 1500, name="slanted_triangular", warmup_from=0.125)
    with refused("rise: has no effect with warmup 100"):
        rates(1000, 1500, name="slanted_triangular", warmup=100, rise=0.9)

    assert rates(1, 1, name="slanted_triangular") == [1.0]


@contract(SCHEDULES)
def test_a_warmup_below_one_is_a_share_of_the_steps(name):
    assert rates(150, 160, name=name, warmup=0.1, **case(name)) == rates(
        150, 160, name=name, warmup=15, **case(name)
    )


@contract(SCHEDULES, only=WARM)
def test_a_warmup_may_begin_above_zero(name):
    """On the line from there to the peak; what follows does not change."""
    usual = rates(20, 30, name=name, warmup=8, **case(name))
    raised = rates(20, 30, name=name, warmup=8, warmup_from=0.25, **case(name))

    assert raised == pytest.approx([0.25 + 0.75 * rate for rate in usual[:7]] + usual[7:])


@contract(SCHEDULES, only=WARM)
@settings(max_examples=40)
@given(
    warmup=st.integers(0, 30),
    steps=st.integers(1, 60),
    order=st.randoms(use_true_random=False),
)
def test_rates_follow_from_the_step_alone(name, warmup, steps, order):
    schedule = SCHEDULES.resolve({"name": name, "warmup": warmup, **case(name)}).build(steps)
    values = {step: schedule(step) for step in range(1, 100)}
    for step in order.sample(range(1, 100), 20):
        assert schedule(step) == values[step]

    assert all(0.0 <= value <= 1.0 for value in values.values())
    assert [values[step] for step in range(1, warmup)] == pytest.approx(
        [step / warmup for step in range(1, warmup)]
    )

    falling = [values[step] for step in range(max(1, warmup), 100)]
    if not schedule.rises:
        assert falling == sorted(falling, reverse=True)
    if not schedule.endless:
        assert len({values[step] for step in range(max(steps, warmup, 1), 100)}) == 1, (
            "it keeps its last value"
        )


@pytest.mark.parametrize(
    "change",
    [
        {"warmup": -1},
        {"steps": 0},
        {"warmup": 1.5},
        {"cycles": 2},
    ],
)
@contract(SCHEDULES)
def test_wrong_options_are_refused(name, change):
    with refused(next(iter(change))):
        SCHEDULES.resolve({"name": name, **case(name), **change})


@pytest.mark.parametrize("name", ["linear", "cosine", "constant", "polynomial", "wsd"])
def test_a_horizon_before_the_end_of_the_warmup_leaves_the_rate_at_its_peak(name):
    """A horizon that was frozen by a short first start, for example."""
    assert rates(5, 13, name=name, warmup=10)[7:] == pytest.approx([0.8, 0.9, 1.0, 1.0, 1.0, 1.0])
