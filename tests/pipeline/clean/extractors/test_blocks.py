from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.extractors import PageRefused, _class_hints, blocks
from clozeline.pipeline.clean.extractors._page_walk import read_page
from clozeline.pipeline.clean.extractors.blocks import Blocks
from clozeline.registry import choose
from tests.pipeline.clean.extractors.written_pages import EXTRA, LINKS, MENU, MORE, PAGES, PROSE, page, text


def extract(html: str, **options: Any) -> str:
    return Blocks(Blocks.Options(**options)).extract(html)


def lost_pages() -> list[str]:
    lost = []
    for name, (html, expected) in PAGES.items():
        try:
            lost += [name] if extract(html) != expected else []
        except PageRefused:
            lost.append(name)
    return lost


@pytest.mark.parametrize("name", PAGES)
def test_written_pages(name: str) -> None:
    html, expected = PAGES[name]
    assert extract(html) == expected


def test_the_worked_example() -> None:
    assert extract("<nav><a href=/>Home</a></nav><h1>Title</h1><p>One <b>two</b>.</p>") == "Title\n\nOne two."


def test_a_page_of_menus_is_rejected() -> None:
    with pytest.raises(PageRefused, match="no_main_text"):
        extract(MENU)
    assert "Another story of the day, number 7" in extract(MENU, empty="all")


def test_a_page_without_text_is_empty() -> None:
    assert extract("<html><body><img src=x><script>x</script>") == ""


def test_the_title_is_an_option() -> None:
    html = (
        page(f"<p>{EXTRA}</p>")
        .replace("<h1>The flood</h1>", "")
        .replace("<main>", "<header><h1>The flood</h1></header><main>")
    )
    assert extract(html) == text(EXTRA)
    assert extract(html, title=False) == text(EXTRA, title="")


def test_comments_after_the_article_are_dropped() -> None:
    comments = "".join(
        f"<li class='comment'><div class='comment-author'><a href='/u{n}'>reader {n}</a></div><p>{EXTRA}</p></li>"
        for n in range(9)
    )
    html = page("").replace(
        "<aside", f"<div id='comments' class='comments'><ol class='comment-list'>{comments}</ol></div><aside"
    )
    assert extract(html) == text()


def test_every_block_is_a_part_of_the_text_of_the_page() -> None:
    for name, (html, _) in PAGES.items():
        if "Math" in name or "KaTeX" in name or "ruby" in name:
            continue  # formulas as TeX, and annotations inside words
        body = LexborHTMLParser(html.replace("<br", " <br").replace("<p", " <p")).body
        assert body is not None
        folded = "".join(body.text().split())
        for block in read_page(html).texts:
            assert "".join(block.split()) in folded, name


def test_the_order_of_pages_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    htmls = [html for html, _ in PAGES.values()]
    extractor = Blocks(Blocks.Options())
    forward = [extractor.extract(html) for html in htmls]
    for cache in ("_words_seen", "_strings_seen"):
        monkeypatch.setattr(_class_hints, cache, {})
    monkeypatch.setattr(_class_hints, "_CACHED", 3)  # the caches fill up and start anew
    assert [extractor.extract(html) for html in reversed(htmls)] == forward[::-1]


def count_lines(html: str) -> int:
    """Return how many lines of our code run for a page."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if "clozeline" not in frame.f_code.co_filename and "pipeline" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    extractor = Blocks(Blocks.Options())
    extractor.extract(html)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        extractor.extract(html)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize(
    "inner",
    [
        f"<p>{EXTRA}</p>",
        f"<ul>{LINKS}</ul>",
        "<div class='a'><div>",
        f"<table><tr><td>1<td>{MORE}</table>",
        f"{MORE}<br><br>",
    ],
)
def test_work_is_linear_in_the_blocks(inner: str) -> None:
    one, two = (count_lines(page(inner * count)) for count in (200, 400))
    assert 1.5 < two / one < 2.1


def test_deep_pages_are_refused_or_end_in_time() -> None:
    with pytest.raises(PageRefused, match="html_depth"):
        extract("<div>" * 200_000 + EXTRA)
    assert extract("<b>" * 4000 + EXTRA) == EXTRA
    with pytest.raises(PageRefused, match="html_depth"):
        extract("<div>" * 11, max_depth=10)


def test_an_extractor_that_loses_the_last_block_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_blocks = blocks.choose_blocks

    def lose_last(*arguments: Any) -> Any:
        kept = choose_blocks(*arguments)
        kept[np.flatnonzero(kept)[-1:]] = False
        return kept

    assert lost_pages() == []
    monkeypatch.setattr(blocks, "choose_blocks", lose_last)
    assert len(lost_pages()) == len(PAGES)


def test_wrong_options_are_told() -> None:
    with pytest.raises(ConfigurationError, match="empty"):
        choose("clozeline.pipeline.clean.extractors", {"name": "blocks", "empty": "some"})


def test_the_lenient_rules_find_nothing_more() -> None:
    assert Blocks(Blocks.Options()).extract_leniently(PROSE["en"][0]) == ""
