"""Charts: what they draw, their text alternatives, and the same bytes for equal data."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.report.charts import Plot, draw_chart, short, thin_points, ticks
from clozeline.report.html_page import page
from clozeline.report.views import Chart, Section, Series
from tests.pages import checked

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


def test_series_share_their_axes():
    series = [Series("a", [(1, 4.0), (3, 2.0)]), Series("b", [(2, 3.0), (3, 3.0)])]
    picture = drawn(series)
    ((a, b),), ((c, d),) = paths(picture, "var(--c0)"), paths(picture, "var(--c1)")

    assert c[0] == pytest.approx((a[0] + b[0]) / 2, abs=0.1)
    assert d[0] == pytest.approx(b[0], abs=0.1)
    assert c[1] == pytest.approx((a[1] + b[1]) / 2, abs=0.1)
    assert checked(page(Section("", [Chart("Loss", series, "step")]))).pictures == [
        "Loss: a from 4 to 2; b from 3 to 3"
    ]


def test_a_smooth_line_is_drawn_with_its_running_mean():
    points = [(float(step), 5.0 - step / 20 + (-1) ** step / 5) for step in range(80)]
    pale, mean = paths(drawn([Series("a", points, smooth=True)]), "var(--c0)")
    assert (mean[0], mean[-1]) == (pale[0], pale[-1])
    expected = np.convolve(np.array(pale)[:, 1], np.full(5, 0.2), "valid")
    np.testing.assert_allclose(np.array(mean)[2:-2, 1], expected, atol=0.1)


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


def test_numbers_of_axes_are_short():
    shown = {
        0: "0",
        0.005: "0.005",
        1e-5: "1e-5",
        -0.000125: "-1.25e-4",
        4096: "4,096",
        20000: "20k",
        65536: "65.5k",
        -1.5e6: "-1.5M",
        5e-4: "5e-4",
        0.0009999999: "0.001",
        9.994e-4: "9.99e-4",
        9999.9: "10k",
        999_999: "1M",
        3e15: "3e15",
        2.5e11: "250G",
    }

    assert {value: short(value) for value in shown} == shown


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
