"""Schedules against the steps of a run: what is refused, by the learning rates that the run would get."""

from contextlib import nullcontext
from itertools import product

import pytest

from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from clozeline.train.configuration.schedule import check_schedule


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_a_warm_up_fits_if_the_rate_reaches_its_peak(name: str) -> None:
    for warmup, end in product(range(12), range(1, 12)):
        chosen = choose("clozeline.train.optim.schedules", {"name": name, "warmup": warmup})
        schedule = chosen.build(end)
        # step 0 is none of the steps, and without warm-up the rate is at its peak before the first
        peaks = not warmup or max(schedule(step) for step in range(1, end + 1)) == 1.0
        if peaks:
            check_schedule(chosen.options, end)
        else:
            with pytest.raises(ConfigurationError, match=rf"schedule\.warmup: expected at most {end}, .* got {warmup}"):
                check_schedule(chosen.options, end)


@pytest.mark.parametrize(("end", "fits"), [(6, False), (7, False), (8, True)])
def test_a_decay_starts_before_the_end(end: int, fits: bool) -> None:
    options = choose("clozeline.train.optim.schedules", {"name": "wsd", "decay_from": 7}).options
    with (
        nullcontext()
        if fits
        else pytest.raises(ConfigurationError, match=f"decay_from: expected a step before .* at {end}, got 7")
    ):
        check_schedule(options, end)
