"""Charts: what they draw, their text alternatives, and the same bytes for equal data."""

from __future__ import annotations

import re

import numpy as np
import pytest

from clozeline.report.charts import (
    Bar,
    Series,
    Step,
    areas,
    bars,
    funnel,
    histogram,
    lines,
    shares,
    thin_points,
)
from clozeline.report.html_page import page, visible
from clozeline.report.svg import WIDTH
from tests.pages import HOSTILE, checked

NAN = float("nan")
POINTS = [(float(step), 10.0 / step) for step in range(1, 60)]


def every_picture(name: str) -> list[str]:
    return [
        bars(name, [Bar(name, 2, name), Bar("日本語 ไทย 𝔘", 1, "1")]),
        funnel(name, [Step(name, 7, "a", name), Step("b", 3, "b")]),
        lines(name, [Series(name, POINTS), Series("marked", POINTS[:3])], name, levels={name: 4.5}),
        lines(name, [Series(name, POINTS)], name, x_scale="log"),
        areas(name, [Series(name, POINTS), Series("other", POINTS)], name),
        histogram(name, [0, 1, 2, 4], [3, 1, 2], name),
    ]


def test_hostile_names_are_text_and_pictures_need_nothing_else():
    text = page("", every_picture(HOSTILE))
    parsed = checked(text)
    assert parsed.count("svg") == len(parsed.pictures) == 6
    assert all(figures.startswith(f"{visible(HOSTILE)}: ") for figures in parsed.pictures)
    assert {name for tag, facts in parsed.tags if tag == "svg" for name in facts} == {"role", "viewbox"}
    # its text looks like a colour that is replaced and like an id that is removed; neither is touched
    assert sum('$\\q$ #000001 id="a" <b>&amp;' in one for one in parsed.svg_texts) == 6


def test_all_colours_are_those_of_the_page():
    drawn = "".join(every_picture("name"))
    style = set(re.findall(r"(?:fill|stroke): ?([^;\"]+)", drawn))
    assert style == {"none", "currentColor", *(f"var(--{name})" for name in ("line", "muted", "c0", "c1", "c2"))}
    assert not re.search(r"#[0-9a-f]{3,6}|font-family", drawn)


def test_equal_data_give_equal_bytes():
    assert every_picture("name") == every_picture("name")


def boxes(picture: str, colour: str) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of the boxes of a colour, in units."""
    found = re.findall(
        rf'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" style="fill:{re.escape(colour)}', picture
    )
    return [tuple(map(float, box)) for box in found]


def widths(picture: str, colour: str) -> list[float]:
    return [width for _, _, width, _ in boxes(picture, colour)]


def test_bars_are_as_long_as_their_values():
    picture = bars("Rows", [Bar("a", 50, "fifty"), Bar("b", 20, "twenty"), Bar("c", 0, "none")])
    assert widths(picture, "var(--c0)") == pytest.approx([WIDTH, 0.4 * WIDTH, 0], abs=0.05)
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Rows: a fifty; b twenty; c none"]
    assert bars("Rows", []) == ""


def test_a_share_is_as_wide_as_it_says():
    picture = bars("Rejected", shares({"a": 30, "b": 10}, 100))
    assert widths(picture, "var(--c0)") == pytest.approx([0.3 * WIDTH, 0.1 * WIDTH], abs=0.05)


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
    assert widths(picture, "var(--c0)") == pytest.approx([WIDTH, WIDTH / 4], abs=0.05)
    assert widths(picture, "none") == pytest.approx([WIDTH / 4], abs=0.05)
    assert checked(page("", [picture])).pictures == ["Funnel: read 400; kept 100 · 25 %; tokens 90,000"]
    assert funnel("Funnel", []) == ""


def paths(picture: str, colour: str) -> list[list[tuple[float, float]]]:
    """Points of the lines of a colour, in units."""
    drawn = re.findall(rf'<path d="([^"]*)" style="fill:none;stroke:{re.escape(colour)}', picture)
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path)] for path in drawn]


def test_series_share_their_axes():
    picture = lines("Loss", [Series("a", [(1, 4.0), (3, 2.0)]), Series("b", [(2, 3.0), (3, 3.0)])], "step")
    ((a, b),), ((c, d),) = paths(picture, "var(--c0)"), paths(picture, "var(--c1)")
    assert c[0] == pytest.approx((a[0] + b[0]) / 2, abs=0.1)
    assert d[0] == pytest.approx(b[0], abs=0.1)
    assert c[1] == pytest.approx((a[1] + b[1]) / 2, abs=0.1)
    assert checked(page("", [picture])).pictures == ["Loss: a from 4 to 2; b from 3 to 3"]


def test_levels_are_dashed_lines_at_their_height():
    series = [Series("a", [(1, 4.0), (3, 2.0)])]
    picture = lines("Loss", series, "step", levels={"entropy": 4.0, "lost": NAN})
    (((_, top), _),), ((left, right),) = paths(picture, "var(--c0)"), paths(picture, "var(--c1)")
    assert left[1] == pytest.approx(right[1])
    assert left[1] == pytest.approx(top, abs=0.1)
    assert "stroke-dasharray" in picture
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Loss: a from 4 to 2; entropy 4"]
    assert "entropy 4" in parsed.texts


def test_few_points_are_marked_and_many_are_not():
    few = lines("", [Series("a", [(x, x) for x in range(24)])], "")
    many = lines("", [Series("a", [(x, x) for x in range(25)])], "")
    assert few.count("<circle") == 24
    assert many.count("<circle") == 0


def test_a_smooth_line_is_drawn_pale_with_its_running_mean():
    points = [(float(step), 5.0 - step / 20 + (-1) ** step / 5) for step in range(80)]
    picture = lines("Loss", [Series("a", points, smooth=True)], "step")
    pale, mean = paths(picture, "var(--c0)")
    assert len(pale) == len(mean) == 80
    assert (mean[0], mean[-1]) == (pale[0], pale[-1])
    assert picture.count("stroke-opacity:0.35") == 1
    heights = np.array(pale)[:, 1]
    np.testing.assert_allclose(np.array(mean)[2:-2, 1], np.convolve(heights, np.full(5, 0.2), "valid"), atol=0.1)
    assert "a: pale, and its running mean" in checked(page("", [picture])).texts
    few = lines("Loss", [Series("a", points[:20], smooth=True)], "step")
    assert len(paths(few, "var(--c0)")) == 1


def test_nothing_finite_gives_no_picture():
    assert lines("", [Series("a", []), Series("b", [(1, NAN)])], "", levels={"c": 1.0}) == ""
    assert areas("", [Series("a", []), Series("b", [])], "") == ""
    assert areas("", [], "") == ""
    assert histogram("", [0, 1], [0], "") == ""


def test_long_series_are_thinned_by_averaging():
    points = [(float(step), float(step % 2)) for step in range(6000)]
    found = thin_points(points)
    assert len(found) == 400
    assert found[0] == (14.0, 7 / 15)
    assert found[-1][0] == 5999
    assert thin_points([(1, 2.0), (2, NAN), (3, 4.0)]) == [(1, 2.0), (3, 4.0)]


def test_areas_tell_their_parts_and_lie_on_each_other():
    picture = areas("Time", [Series("compute", [(1, 3.0), (2, 5.0)]), Series("wait", [(1, 1.0), (2, 1.0)])], "step")
    assert checked(page("", [picture])).pictures == ["Time: compute 80.0 %; wait 20.0 %"]
    found = re.findall(r'<path d="M ([^"]*) Z" style="fill:var\(--c[01]\)"', picture)
    first, second = [[tuple(map(float, point.split())) for point in path.split(" L ")] for path in found]
    assert second[3:1:-1] == first[:2], "the lower edge of the upper area is the upper edge of the lower one"
    zero, (upper, lower) = first[-1][1], (second[0][1], first[0][1])
    assert (zero - upper) / (zero - lower) == pytest.approx(4 / 3, abs=0.01)
    assert min(y for _, y in second) >= 20, "inside the plot"


def test_a_histogram_has_a_bar_for_each_range_with_its_count_under_the_pointer():
    picture = histogram("Rows", [2, 3, 5, 9], [4, 2, 1], "length")
    heights = [height for *_, height in boxes(picture, "var(--c0)")]
    assert [height / heights[-1] for height in heights] == pytest.approx([4, 2, 1], abs=0.02)
    parsed = checked(page("", [picture]))
    assert parsed.pictures == ["Rows: 7 from 2 to 8, most of them 2"]
    assert "5" in parsed.svg_texts  # the first value of the last range
    assert {"2: 4", "3 to 4: 2", "5 to 8: 1"} <= set(parsed.texts)


def test_a_log_axis_has_powers_of_ten_at_equal_distances():
    picture = lines("", [Series("a", [(1.0, 1.0), (20_000.0, 2.0)])], "ids", x_scale="log")
    at = {text: float(x) for x, text in re.findall(r'<text x="([\d.]+)"[^>]*>(1[0k,]*)</text>', picture)}
    assert list(at) == ["1", "10", "100", "1,000", "10k"]
    assert np.ptp(np.diff(list(at.values()))) < 0.11


@pytest.mark.parametrize("value", [0.0, 3.5, -2.0, 1e-9, 1e15])
def test_a_single_value_has_axes(value):
    assert checked(page("", [lines("", [Series("a", [(value, value)])], "x")])).count("circle") == 1
