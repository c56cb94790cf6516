"""Promises of every extractor, and what each of the two finds on pages of its own."""

import pytest
from resiliparse.parse.html import HTMLTree

from clozeline import plugins
from clozeline.pipeline.clean.extractors.resiliparse import ResiliparseExtractor
from clozeline.pipeline.clean.extractors.trafilatura import TrafilaturaExtractor
from clozeline.pipeline.registries import EXTRACTORS
from tests.contracts import contract

REQUIRED = {
    "datatrove": {
        "block": "datatrove.pipeline.extractors:Trafilatura",
        "options": {"deduplicate": False},
    }
}
"""Options that an extractor cannot do without."""


@contract(EXTRACTORS)
def test_an_extractor_keeps_the_contract(name, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "datatrove.pipeline.extractors")
    kind = EXTRACTORS.load_class(name)

    assert isinstance(kind.VERSION, int)

    extractor = kind(EXTRACTORS.resolve({"name": name, **REQUIRED.get(name, {})}).options)

    assert (
        extractor.extract(HTMLTree.parse("<body><p>One sentence.</p></body>")).strip()
        == "One sentence."
    )

    for page in (
        "",
        "plain",
        "<",
        "<p",
        "\0<p>x",
        "<html>" * 50,
        "</p></html>",
        "<!--",
        "<p>\ufffd\u200b",
    ):
        assert "<html>" not in extractor.extract(HTMLTree.parse(page))


MENU = "".join(
    f"<li><a href='/{n}'>One of the entries that leads to another page of the site</a></li>"
    for n in range(20)
)
ARTICLE = "".join(
    f"<p>Paragraph {n} tells what happened on that day, where it was, and who has seen it.</p>"
    for n in range(9)
)
SIDEBAR = "<body><div class='sidebar comments'>"


@pytest.mark.parametrize("main_content", [True, False])
def test_resiliparse_finds_the_main_text_or_all_of_it(main_content):
    extractor = ResiliparseExtractor(ResiliparseExtractor.Options(main_content=main_content))
    page = "<nav><a href=/x>Home</a></nav><h1>Title</h1><p>One <b>two</b>.</p><img alt=alt src=x>"
    found = extractor.extract(HTMLTree.parse(page))

    assert found.endswith("Title\n\nOne two.")
    assert ("Home" in found) != main_content
    assert "/x" not in found
    assert "alt" not in found


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (f"<body><noscript><div></noscript><div>{ARTICLE}</div>", True),
        (f"{SIDEBAR}<ul>{MENU}</ul>{ARTICLE}</div>", True),
        (f"{SIDEBAR}<ul>{MENU}</ul></div>", False),
        (f"{SIDEBAR}<ul>{MENU}</ul><p>Paragraph 1 tells what happened.</div>", False),
    ],
)
def test_a_second_try_of_resiliparse_finds_the_article(page, found):
    extractor = ResiliparseExtractor(ResiliparseExtractor.Options())
    assert extractor.extract(HTMLTree.parse(page)) == ""
    text = extractor.extract_leniently(page)
    assert [f"Paragraph {n} tells" in text for n in range(9)] == [found] * 9
    assert "entries" not in text


def test_trafilatura_finds_the_article_without_menu_and_links():
    extractor = TrafilaturaExtractor(TrafilaturaExtractor.Options())
    page = (
        f"<html><body><nav><ul>{MENU}</ul></nav><main><article>{ARTICLE}<p>And <a "
        "href='/x'>here</a> it ended."
    )
    page = f"{page}</p></article></main><aside><ul>{MENU}</ul></aside></body></html>"
    text = extractor.extract(HTMLTree.parse(page))

    assert "Paragraph 8 tells" in text
    assert "And here it ended." in text
    assert "entries" not in text
    assert "/x" not in text
    assert extractor.extract_leniently(page) == ""
