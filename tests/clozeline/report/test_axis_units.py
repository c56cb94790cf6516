"""Axes name their unit once; no number is written in the unit's full length."""

from __future__ import annotations

import pytest

from clozeline.report.axis_units import duration
from clozeline.report.charts import Series, histogram, lines
from clozeline.report.html_page import page
from tests.pages import checked


@pytest.mark.parametrize(
    ("highest", "unit", "shown"),
    [
        (4096, None, "4,000"),
        (20_000, "in thousands", "20"),
        (2_500_000, "in millions", "2"),
        (4e9, "in billions", "4"),
        (3e15, "in 10¹⁵", "3"),
        (0.5, None, "0.4"),
        (5e-4, "in 10⁻⁴", "4"),
    ],
)
def test_an_axis_names_its_unit_once(highest: float, unit: str | None, shown: str) -> None:
    upright = checked(page("", [lines("", [Series("a", [(0, 0.0), (1, highest)])], "x")])).svg_texts
    flat = checked(page("", [lines("", [Series("a", [(0, 0.0), (highest, 1.0)])], "x")])).svg_texts if unit else []
    assert shown in upright
    assert [text for text in upright if text.startswith("in ")] == ([unit] if unit else [])
    if unit and highest > 1:
        assert f"x, {unit}" in flat


def test_durations_are_in_the_units_of_people() -> None:
    shown = {0.04: "0.0 s", 59.94: "59.9 s", 110: "1 min 50 s", 3599.4: "59 min 59 s", 7380: "2 h 3 min"}
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_given_names_of_ranges_stay() -> None:
    texts = checked(page("", [histogram("", [10_000, 20_000, 40_000], [1, 2], "length")])).svg_texts
    assert {"10k", "20k", "length"} <= set(texts)
