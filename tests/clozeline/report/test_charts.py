"""Charts: what they draw, their text alternatives, and the same bytes for equal data."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.report.charts import Plot, draw_chart, thin_points, ticks
from clozeline.report.views import Chart

NAN = float("nan")


def drawn(series, levels=None):
    return draw_chart(Chart("Loss", series, "step", levels))


def paths(picture, colour):
    """Points of the lines of a colour, in units."""
    drawn = re.findall(rf'<path d="([^"]*)" style="fill:none;stroke:{re.escape(colour)}', picture)
    return [
        [(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path)]
        for path in drawn
    ]


def test_long_series_are_thinned_by_averaging():
    points = [(float(step), float(step % 2)) for step in range(6000)]
    found = thin_points(points)

    assert len(found) == 400
    assert found[0] == (14.0, 7 / 15)
    assert found[-1][0] == 5999
    assert thin_points([(1, 2.0), (2, NAN), (3, 4.0)]) == [(1, 2.0), (3, 4.0)]


def test_values_are_where_the_numbers_of_the_axes_say():
    """The y axis of 10 to 20 has half a unit of air at both ends: 144 units for 11."""
    plot = Plot([0, 100], [10, 20], "step")

    assert plot.project([(0, 10), (100, 20), (50, 15)]) == [
        (46.0, pytest.approx(154 - 144 * 0.5 / 11)),
        (328.0, pytest.approx(10 + 144 * 0.5 / 11)),
        (187.0, 82.0),
    ]

    drawn = plot.y_axis() + plot.x_axis()
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(\d+)</text>', drawn)

    assert len(found) > 6

    for x, y, value in found:
        near = (
            plot.x(float(value)) - float(x)
            if float(y) > 160
            else plot.y(float(value)) + 3.5 - float(y)
        )
        assert abs(near) < 0.06

    assert ">step</text>" in drawn


@given(
    st.integers(-6, 14),
    st.floats(-50, 50),
    st.floats(0.01, 99),
)
def test_ticks_are_round_few_and_inside(power, low, span):
    scale = 10.0**power
    low, high = low * scale, (low + span) * scale
    found = ticks(low, high)

    assert 3 <= len(found) <= 8
    assert low - span * scale * 1e-6 <= found[0] <= found[-1] <= high + span * scale * 1e-6

    step = found[1] - found[0]
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)

    assert min(abs(mantissa - factor) for factor in (1, 2, 2.5, 5)) < 1e-3
    assert all(abs(tick / step - round(tick / step)) < 1e-6 for tick in found)
