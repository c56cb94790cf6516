from __future__ import annotations

import math

import numpy as np
import pytest

from clozeline.pipeline.clean.extractors._block_features import LINKS, LOG_LENGTH, measure_blocks
from clozeline.pipeline.clean.extractors._class_hints import HINTS
from clozeline.pipeline.clean.extractors._page_walk import read_page
from tests.pipeline.clean.extractors.written_pages import EXTRA, MORE, PAGES, page

# columns: 23 of the text, 4 of each of four elements around, 3 of holders, 6 of groups, 7 of the position
TEXT, AROUND, HOLDERS, POSITION = 0, 23, 39, 48


@pytest.mark.parametrize("name", PAGES)
def test_features_are_finite(name: str) -> None:
    features = measure_blocks(read_page(PAGES[name][0]))
    assert np.isfinite(features).all()
    assert features.shape[0] == len(read_page(PAGES[name][0]).texts)


@pytest.mark.parametrize(
    ("text", "letters", "words", "marks", "ends", "low", "digits", "upper", "signs", "commas"),
    [
        ("One, two.", 9, 2, 1, 1, 0, 0, 1, 0, 1),
        ("and 42 men (said he!)", 21, 5, 1, 1, 1, 2, 0, 0, 0),
        ("Home » News | 7", 15, 5, 0, 0, 0, 1, 2, 2, 0),
        ("夜。", 3.5, 2, 1, 1, 0, 0, 0, 0, 0),
        ("ABC?", 4, 1, 1, 1, 0, 0, 3, 0, 0),
        ("😀 x", 3, 2, 0, 0, 0, 0, 0, 0, 0),
    ],
)
def test_measures_of_a_text(
    text: str,
    letters: float,
    words: int,
    marks: int,
    ends: int,
    low: int,
    digits: int,
    upper: int,
    signs: int,
    commas: int,
) -> None:
    row = measure_blocks(read_page(f"<p>Xy<p>{text}<p>z"))[1]
    expected = [
        math.log1p(letters), math.log1p(words), math.log1p(marks), 0, 0, ends, low, digits / letters, upper / letters,
        signs / letters,
    ]  # fmt: skip
    assert row[:10] == pytest.approx(expected)
    assert row[11] == pytest.approx(commas / words)


def test_share_of_links() -> None:
    features = measure_blocks(read_page("<p>four <a>six six</a></p><a href=/><p>x</p></a>"))
    assert features[:, LINKS] == pytest.approx([7 / 12, 1])
    assert features[:, LOG_LENGTH] == pytest.approx([math.log1p(12), math.log1p(1)])


def test_shares_of_the_prose_in_the_elements_around() -> None:
    html = f"<div><section><p>{EXTRA}</p><p>{MORE}</p></section></div><div><p>{EXTRA}</p></div><p>menu</p>"
    features = measure_blocks(read_page(html))
    all_prose = 2 * len(EXTRA) + len(MORE)
    own, inner = len(EXTRA) / all_prose, (len(EXTRA) + len(MORE)) / all_prose
    # the paragraph; the section, whose div holds nothing else and is passed over; the body; the body again
    assert features[0, AROUND : AROUND + 16 : 4] == pytest.approx([own, inner, 1, 1])
    # the second div holds its paragraph only
    assert features[2, AROUND : AROUND + 16 : 4] == pytest.approx([own, 1, 1, 1])
    # half the prose is in the section, but not three quarters
    assert features[:, HOLDERS].tolist() == [1, 1, 0, 0]
    assert features[:, HOLDERS + 1].tolist() == [1, 1, 1, 1]


def test_positions() -> None:
    features = measure_blocks(read_page(f"<p>menu<h1>Title</h1><p>{EXTRA}<p>{MORE}<p>end"))
    total = len(EXTRA) + len(MORE)
    assert features[:, POSITION] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert features[:, POSITION + 1] == pytest.approx([0, 0, 0, len(EXTRA) / total, 1])
    assert features[:, POSITION + 2 : POSITION + 6].T.tolist() == [
        [1, 0, 0, 0, 0],  # before the h1
        [0, 0, 1, 1, 1],
        [1, 1, 0, 0, 0],  # before the first prose
        [0, 0, 0, 0, 1],
    ]


def test_blocks_before_and_after() -> None:
    features = measure_blocks(read_page(page("")))
    for by, start in ((-2, -28), (-1, -21), (1, -14), (2, -7)):
        lengths = features[:, LOG_LENGTH]
        expected = [lengths[row + by] if 0 <= row + by < len(lengths) else 0 for row in range(len(lengths))]
        assert features[:, features.shape[1] + start] == pytest.approx(expected)


def test_hints_of_an_element_and_of_all_around_it() -> None:
    features = measure_blocks(read_page("<div class='comment'>a<section><p>b</section></div><nav>c</nav>"))
    own, around = features[:, -86:-57], features[:, -57:-28]
    comment, nav = HINTS.index("comment"), len(HINTS)
    assert own[:, comment].tolist() == [1, 0, 0]
    assert around[:, comment].tolist() == [1, 1, 0]
    assert own[:, nav].tolist() == around[:, nav].tolist() == [0, 0, 1]
    assert own.sum() == 2
