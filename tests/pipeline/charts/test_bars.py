from __future__ import annotations

import re

import pytest

from pipeline.charts.bars import Bar, Step, bars, funnel, shares
from pipeline.charts.drawing import WIDTH
from pipeline.html_page import page
from tests.pages import checked


def widths(picture: str, colour: str) -> list[float]:
    """Widths of the boxes of a colour, in units."""
    boxes = re.findall(rf'd="M ([\d.]+) [\d.]+ L ([\d.]+) [^"]*" style="fill: {re.escape(colour)}', picture)
    return [float(right) - float(left) for left, right in boxes]


def test_bars_are_as_long_as_their_values():
    picture = bars("Rows", [Bar("a", 50, "fifty"), Bar("b", 20, "twenty"), Bar("c", 0, "none")])
    assert widths(picture, "var(--c0)") == pytest.approx([WIDTH, 0.4 * WIDTH, 0])
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Rows: a fifty; b twenty; c none"]
    assert bars("Rows", []) == ""


def test_names_are_cut_where_their_figure_begins():
    parsed = checked(page("", [bars("", [Bar("x" * 80, 1, "12345"), Bar("字" * 40, 1, "1234")])]))
    assert f"{'x' * 44}…" in parsed.texts
    assert f"{'字' * 22}…" in parsed.texts


def test_shares_are_of_the_whole_and_largest_first():
    assert shares({"a": 1, "b": 3, "none": 0}) == [Bar("b", 3, "3 · 75.0 %"), Bar("a", 1, "1 · 25.0 %")]
    assert shares({"a": 1, "b": 3}, 40) == [Bar("b", 3, "3 · 7.5 %"), Bar("a", 1, "1 · 2.5 %")]
    many = shares({f"{number:02d}": number for number in range(1, 31)})
    assert len(many) == 20
    assert many[-1] == Bar("11 others", 66, "66 · 14.2 %")
    assert sum(bar.value for bar in many) == sum(range(31))


def test_a_funnel_narrows_by_counts_of_one_unit():
    steps = [Step("read", 400, "texts"), Step("kept", 100, "texts", "25 %"), Step("tokens", 90_000, "tokens")]
    picture = funnel("Funnel", steps)
    assert widths(picture, "var(--c0)") == pytest.approx([WIDTH, WIDTH / 4])
    assert widths(picture, "none") == pytest.approx([WIDTH / 4])
    assert checked(page("", [picture])).pictures == ["Funnel: read 400; kept 100 · 25 %; tokens 90,000"]
    assert funnel("Funnel", []) == ""
