"""Columns under the pointer: they tile the plot, and each tells the last values up to its x."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from clozeline.report.charts import Series, lines
from clozeline.report.hover import draw_columns
from clozeline.report.html_page import page
from tests.pages import checked

BOX = (50.0, 20.0, 328.0, 154.0)


def columns(*curves: list[tuple[float, float]]) -> list[tuple[float, float, str]]:
    """Left edge, width and text of each column, over an axis of 0 to 100."""
    named = [(f"var(--c{number})", points) for number, points in enumerate(curves)]
    drawn = draw_columns(named, lambda x: BOX[0] + (BOX[2] - BOX[0]) * x / 100, BOX, lambda value: f"{value:g}")
    checked(page("", [f"<svg role=img><title>x</title>{drawn}</svg>"]))
    found = re.findall(r'<rect x="([\d.]+)" y="20" width="([\d.]+)".*?<text[^>]*>(.*?)</text>', drawn)
    return [(float(left), float(width), re.sub("<[^>]+>", "", text)) for left, width, text in found]


def test_a_column_tells_its_x_and_the_value_of_each_curve_that_has_a_point_in_it() -> None:
    shown = columns([(0, 4.0), (50, 3.0), (100, 2.0)], [(100, 2.5)])
    assert [text for _, _, text in shown] == ["0: 4", "50: 3", "100: 2 2.5"]
    assert [(left, width) for left, width, _ in shown] == [(50.0, 69.5), (119.5, 139.0), (258.5, 69.5)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200, unique=True).map(sorted))
def test_columns_tile_the_plot_and_no_value_is_of_an_earlier_column(xs: list[int]) -> None:
    points = [(x / 10, float(x)) for x in xs]
    shown = columns(points)
    assert len(shown) <= 48
    assert abs(sum(width for _, width, _ in shown) - 278) < 0.06 * len(shown)
    assert all(float(text.split(": ")[1]) == 10 * float(text.split(":")[0]) for _, _, text in shown)


def test_a_chart_hides_its_columns_until_the_pointer_is_there() -> None:
    text = page("", [lines("Loss", [Series("a", [(1, 4.0), (3, 2.0)])], "step")])
    assert text.count("<g class=h>") == 2
    assert ".h path,.h text{visibility:hidden}" in text
