from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np

from tools.shard_statistics.pictures import coverage_curve, histogram


def drawing(text: str) -> ET.Element:
    return ET.fromstring(text[text.index("<svg") :])


def test_bars_stand_for_all_rows():
    counts = np.arange(200)
    picture = histogram("<lengths>", counts)
    assert "<h2>&lt;lengths&gt;</h2>" in picture
    titles = [element.text for element in drawing(picture).iter() if element.tag.endswith("title")]
    assert len(titles) <= 64
    assert sum(int(text.split(": ")[1].replace(",", "")) for text in titles) == counts.sum()
    assert titles[0] == "0 to 3: 6"


def test_few_values_have_a_bar_each():
    titles = [element.text for element in drawing(histogram("", np.array([5, 0, 7]))).iter() if element.text]
    assert titles[:3] == ["0: 5", "1: 0", "2: 7"]
    drawing(histogram("", np.zeros(0, np.int64)))


def test_bars_widen_where_a_few_values_are_very_large():
    counts = np.zeros(100_000, np.int64)
    counts[5:50] = 100
    counts[99_999] = 1
    titles = [e.text for e in drawing(histogram("", counts)).iter() if e.tag.endswith("title")]
    found = [(text.split(": ")[0], int(text.split(": ")[1].replace(",", ""))) for text in titles]
    assert sum(count for _, count in found) == counts.sum()
    assert sum(count > 0 for _, count in found) > 10
    bounds = [[int(end.replace(",", "")) for end in span.split(" to ")] for span, _ in found]
    assert [first for first, *_ in bounds] == [0, *(last[-1] + 1 for last in bounds[:-1])]
    assert bounds[-1][-1] == 99_999


def test_the_curve_of_coverage_rises_to_everything():
    counts = np.array([0, 50, 30, 20, 0])
    line = next(e for e in drawing(coverage_curve("ids", counts)).iter() if e.tag.endswith("polyline"))
    points = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+),([\d.]+)", line.get("points"))]
    assert [y for _, y in points] == [80.0, 32.0, 0.0]
    assert points[0][0] == 0
    assert coverage_curve("ids", np.zeros(4, np.int64)) == ""
