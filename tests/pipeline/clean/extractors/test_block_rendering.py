from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.clean.extractors._block_rendering import find_title, render
from clozeline.pipeline.clean.extractors._page_walk import read_page


def render_all(html: str, *dropped: int) -> str:
    page = read_page(html)
    kept = np.ones(len(page.texts), np.bool_)
    kept[list(dropped)] = False
    return render(page, kept)


LIST = "<p>a</p><ul><li>b<ul><li>c</li><li>d</li></ul></li><li>e<p>f</p></li></ul><p>g</p>"
TABLE = "<table><tr><th>a<th>b<tr><td>c<td>d</table>"


@pytest.mark.parametrize(
    ("html", "dropped", "expected"),
    [
        ("<p>a<p>b", (), "a\n\nb"),
        ("<p>a<p>b<p>c", (1,), "a\n\nc"),
        (LIST, (), "a\n\n- b\n  - c\n  - d\n- e\n  f\n\ng"),
        (LIST, (1,), "a\n\n  - c\n  - d\n- e\n  f\n\ng"),
        ("<ol><li>a<br>b</li></ol>", (), "- a\n  b"),
        ("<ul>a<li>b</ul>", (), "- a\n- b"),
        (TABLE, (), "a | b\nc | d"),
        (TABLE, (3,), "a | b\nc"),
        (TABLE + TABLE, (), "a | b\nc | d\n\na | b\nc | d"),
        (f"<ul><li>{TABLE}</ul>", (), "a | b\nc | d"),
        ("<table><tr><td><p>a<p>b<td>c</table>", (), "a\n\nb\n\nc"),
        (f"<table><tr><td>{'a' * 301}<td>b</table>", (), "a" * 301 + "\n\nb"),
        ("<table><tr><td><ul><li>a<li>b</ul></table>", (), "- a\n- b"),
        ("<p>a<pre>b\n  c</pre>", (), "a\n\nb\n  c"),
        ("<dl><dt>a<dd>b</dl>", (), "a\n\nb"),
    ],
)
def test_forms(html: str, dropped: tuple[int, ...], expected: str) -> None:
    assert render_all(html, *dropped) == expected


@pytest.mark.parametrize(
    ("html", "kept", "title"),
    [
        ("<h1>a</h1><p>b", [0, 1], 0),
        ("<h1>site</h1><h1>a</h1><p>b", [0, 0, 1], 1),
        ("<p>b<h1>a</h1>", [1, 0], None),
        ("<p>a<p>b", [0, 1], None),
        (f"<h1>{'a' * 301}</h1><p>b", [0, 1], None),
    ],
)
def test_the_title_is_the_last_h1_before_the_text(html: str, kept: list[int], title: int | None) -> None:
    assert find_title(read_page(html), np.array(kept, np.bool_)) == title
