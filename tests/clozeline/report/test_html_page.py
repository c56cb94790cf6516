import re

import pytest

from clozeline.report.html_page import (
    bars,
    collapsible,
    escape,
    grid,
    largest,
    listing,
    page,
    quote,
    section,
    table,
    tiles,
    visible,
)
from tests.pages import HOSTILE, checked


def test_hostile_text_is_text_in_every_slot():
    parts = [
        tiles({HOSTILE: HOSTILE}),
        section(HOSTILE, grid(quote(HOSTILE, HOSTILE))),
        collapsible(HOSTILE, listing(HOSTILE)),
        table([HOSTILE, "count"], [[HOSTILE, 1]]),
        bars(HOSTILE, {HOSTILE: 1}),
    ]

    text = page(HOSTILE, parts)

    assert checked(text).texts.count(visible(HOSTILE)) == 13

    text.encode()

    assert escape("a\x00b\x1b\ud800\n\t<") == "a\ufffdb\ufffd\ufffd\n\t&lt;"


def test_numbers_are_set_right_and_others_left():
    parsed = checked(page("", [table(["name", "count"], [["a", 1234567], ["b", 0.25]])]))

    assert [kind for tag, kind in parsed.tags if tag == "td"] == [{}, {"class": "n"}] * 2
    assert [kind for tag, kind in parsed.tags if tag == "th"] == [
        {"scope": "col"},
        {"scope": "col", "class": "n"},
    ]
    assert parsed.cells == ["name", "count", "a", "1,234,567", "b", "0.2"]

    rows = [["a", "1.5 MB", "54.8 %", "1 min 3 s", "2.0 s", "v1 s", "1.06e+12", "0.10.1"]]
    parsed = checked(page("", [table(["", *"bcdefgh"], rows)]))
    classes = [kind.get("class") for tag, kind in parsed.tags if tag == "td"]

    assert classes == [None, "n", "n", "n", "n", None, "n", None]


def test_parts_without_content_leave_nothing():
    assert section("title", "", "") == ""
    assert grid("", "") == ""
    assert bars("title", {}) == ""
    assert checked(page("", [table(["", ""], [["a", 1]])])).count("th") == 0


@pytest.mark.parametrize(
    ("counts", "total", "widths", "texts"),
    [
        (
            {"a": 5000, "b": 2000, "c": 0},
            None,
            [100, 40, 0],
            ["a", "5,000", "b", "2,000", "c", "0"],
        ),
        (
            {"a": 30, "b": 10},
            40,
            [75, 25],
            ["a", "30 · 75.0 %", "b", "10 · 25.0 %"],
        ),
    ],
)
def test_bars_are_as_long_as_their_counts(counts, total, widths, texts):
    figure = bars("Rows", counts, total)
    assert [
        float(width) for width in re.findall(r'style="background-size:([\d.]+)% 100%"', figure)
    ] == widths
    assert checked(page("", [figure])).texts[-len(texts) - 1 :] == ["Rows", *texts]


def test_the_largest_counts_come_first_and_the_rest_is_one():
    assert list(largest({"a": 1, "b": 3, "none": 0}).items()) == [("b", 3), ("a", 1)]
    many = list(largest({f"{number:02d}": number for number in range(1, 31)}).items())
    assert (len(many), many[0], many[-1]) == (20, ("30", 30), ("11 others", 66))
    assert sum(count for _, count in many) == sum(range(31))
