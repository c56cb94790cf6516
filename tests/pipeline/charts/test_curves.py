from __future__ import annotations

import re

import pytest

from pipeline.charts.curves import Series, areas, histogram, lines, thinned
from pipeline.html_page import page
from tests.pages import checked

NAN = float("nan")


def paths(picture: str, colour: str) -> list[list[tuple[float, float]]]:
    """Points of the lines of a colour, in units."""
    drawn = re.findall(
        rf'<path d="([^"]*)" style="fill: none; (?:stroke-dash[^;]*; )*stroke: {re.escape(colour)}', picture
    )
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path)] for path in drawn]


def test_series_share_their_axes():
    picture = lines("Loss", [Series("a", [(1, 4.0), (3, 2.0)]), Series("b", [(2, 3.0), (3, 3.0)])], "step")
    ((a, b),), ((c, d),) = paths(picture, "var(--c0)"), paths(picture, "var(--c1)")
    assert c[0] == pytest.approx((a[0] + b[0]) / 2, abs=0.01)
    assert d[0] == pytest.approx(b[0], abs=0.01)
    assert c[1] == pytest.approx((a[1] + b[1]) / 2, abs=0.01)
    assert checked(page("", [picture])).pictures == ["Loss: a from 4 to 2; b from 3 to 3"]


def test_levels_are_dashed_lines_at_their_height():
    series = [Series("a", [(1, 4.0), (3, 2.0)])]
    picture = lines("Loss", series, "step", levels={"entropy": 4.0, "lost": NAN})
    (((_, top), _),), ((left, right),) = paths(picture, "var(--c0)"), paths(picture, "var(--c1)")
    assert left[1] == pytest.approx(right[1])
    assert left[1] == pytest.approx(top, abs=0.01)
    assert "stroke-dasharray" in picture
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Loss: a from 4 to 2; entropy 4"]
    assert "entropy 4" in parsed.texts


def test_few_points_are_marked_and_many_are_not():
    few = lines("", [Series("a", [(x, x) for x in range(24)])], "")
    many = lines("", [Series("a", [(x, x) for x in range(25)])], "")
    assert few.count("translate(") == 24
    assert many.count("translate(") == 0


def test_nothing_finite_gives_no_picture():
    assert lines("", [Series("a", []), Series("b", [(1, NAN)])], "", levels={"c": 1.0}) == ""
    assert areas("", [Series("a", []), Series("b", [])], "") == ""
    assert areas("", [], "") == ""
    assert histogram("", [0, 1], [0], "") == ""


def test_long_series_are_thinned_by_averaging():
    points = [(float(step), float(step % 2)) for step in range(6000)]
    found = thinned(points)
    assert len(found) == 400
    assert found[0] == (14.0, 7 / 15)
    assert found[-1][0] == 5999
    assert thinned([(1, 2.0), (2, NAN), (3, 4.0)]) == [(1, 2.0), (3, 4.0)]


def test_areas_tell_their_parts_of_the_whole():
    picture = areas("Time", [Series("compute", [(1, 3.0), (2, 5.0)]), Series("wait", [(1, 1.0), (2, 1.0)])], "step")
    assert checked(page("", [picture])).pictures == ["Time: compute 80.0 %; wait 20.0 %"]


def test_a_histogram_has_a_bar_for_each_range():
    picture = histogram("Rows", [2, 3, 5, 9], [4, 2, 1], "length")
    boxes = re.findall(r'd="M [\d.]+ ([\d.]+) L [\d. ]+ L [\d.]+ ([\d.]+) [^"]*" style="fill: var\(--c0\)"', picture)
    heights = [float(bottom) - float(top) for bottom, top in boxes]
    assert [height / heights[-1] for height in heights] == pytest.approx([4, 2, 1], abs=1e-3)
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Rows: 7 from 2 to 8, most of them 2"]
    assert "5" in parsed.texts  # the first value of the last range
