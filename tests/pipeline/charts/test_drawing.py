from __future__ import annotations

import re
import subprocess
import sys

import matplotlib as mpl
import pytest

from pipeline.charts.bars import Bar, Step, bars, funnel
from pipeline.charts.curves import Series, areas, histogram, lines
from pipeline.charts.drawing import short
from pipeline.html_page import page, visible
from tests.pages import HOSTILE, checked

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
    style = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", drawn))
    assert style == {"none", "currentColor", *(f"var(--{name})" for name in ("line", "muted", "c0", "c1", "c2"))}
    assert not re.search(r"#[0-9a-f]{3,6}|font-family", drawn)


def test_equal_data_give_equal_bytes_whatever_the_user_has_set():
    before = every_picture("name")
    with mpl.rc_context({"font.size": 30, "axes.linewidth": 9, "axes.labelsize": 30, "svg.fonttype": "path"}):
        assert every_picture("name") == before
        assert mpl.rcParams["font.size"] == 30


def test_matplotlib_is_imported_by_the_first_picture():
    program = (
        "import sys, pipeline.__main__, train.logs.report, pipeline.charts.bars as b\n"
        "assert 'matplotlib' not in sys.modules\n"
        "b.bars('t', [b.Bar('a', 1, '1')])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.005, "0.005"),
        (1e-5, "1e-5"),
        (-0.000125, "-1.25e-4"),
        (4096, "4,096"),
        (20000, "20k"),
        (65536, "65.5k"),
        (-1.5e6, "-1.5M"),
        (5e-4, "5e-4"),
        (0.0009999999, "0.001"),
        (9.994e-4, "9.99e-4"),
        (9999.9, "10k"),
        (999_999, "1M"),
    ],
)
def test_numbers_of_axes_are_short(value, shown):
    assert short(value) == shown
