"""Shapes and plots as SVG; positions are computed a second way, by hand."""

from __future__ import annotations

import re

import pytest

from clozeline.report import svg
from clozeline.report.html_page import page
from tests.pages import HOSTILE, checked


def test_hostile_texts_stay_text() -> None:
    shapes = [svg.text(1, 2, HOSTILE), svg.rectangle(0, 0, 1, 1, "red", tip=HOSTILE)]
    drawn = svg.picture(10, ["<title>x</title>", *shapes])
    parsed = checked(page("", [drawn]))
    assert sum("onload=x" in text for text in parsed.texts) == 2


def test_values_are_where_the_numbers_of_the_axes_say() -> None:
    """The y axis of 10 to 20 has half a unit of air at both ends: 134 units for 11."""
    plot = svg.Plot([0, 100], [10, 20], "step")
    assert plot.place([(0, 10), (100, 20), (50, 15)]) == [
        (50.0, pytest.approx(154 - 134 * 0.5 / 11)), (328.0, pytest.approx(20 + 134 * 0.5 / 11)), (189.0, 87.0)
    ]  # fmt: skip
    drawn = plot.axes()
    for x, y, value in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(\d+)</text>', drawn):
        near = plot.x(float(value)) - float(x) if float(y) > 160 else plot.y(float(value)) + 3.5 - float(y)
        assert abs(near) < 0.06
    assert ">step</text>" in drawn


def test_a_plot_with_a_floor_begins_at_zero_and_names_given_ticks() -> None:
    plot = svg.Plot([0, 2], [7, 9], "x", floor=True)
    assert plot.y(0) == 154
    assert ">two</text>" in plot.x_axis([(2, "two")])


def test_a_scale_is_linear_in_the_logarithm() -> None:
    scale = svg.Scale(1, 10_000, 0, 100, log=True)
    assert [scale(value) for value in (1, 10, 100, 10_000)] == pytest.approx([0, 25, 50, 100])


def test_nothing_negative_is_drawn() -> None:
    assert 'width="0.0" height="0.0"' in svg.rectangle(0, 0, -1, -3, "red")
    assert svg.text(0, 0, "") == ""
