"""The text of wikitext: what a page shows, and nothing of its markup."""

from __future__ import annotations

import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup


def test_markup_goes_and_text_stays() -> None:
    markup = """{{Infobox|a={{b}}}}'''Bold''' and ''italic'' [[Target|link]], [[Plain]].<ref name="x">A source</ref>
[[File:x.jpg|thumb|caption with [[a link]]]]

== History ==
* first
# second
: indented [http://example.org site]

{| class="wikitable"
| cell
|}
Caf&eacute;<!-- comment --> <nowiki>[[raw]]</nowiki>
[[Category:Things]]"""
    text = "Bold and italic link, Plain.\n\nHistory\n- first\n- second\nindented site\n\nCafé [[raw]]"
    assert strip_markup(markup) == text


RULES = [
    ("A:\n<pre>\n#include <a.h>\n* b\n</pre>\n<code>\n# c</code> <nowiki>* d</nowiki>\n#one\n*#; two\n:;three",
     "A:\n\n#include <a.h>\n* b\n\n# c * d\n- one\ntwo\nthree"),
    ('<syntaxhighlight lang="c">\n#define x __FILE__\n</syntaxhighlight>', "#define x __FILE__"),
    ("Joy is.<br>It pleases.<br />So they say.<p>A</p><p>B</p>", "Joy is.\nIt pleases.\nSo they say.\nA\n\nB"),
    ("__NOTOC__\nRivers __init__ __NOEDITSECTION__ flow.\n__KEIN_INHALTSVERZEICHNIS__\n", "Rivers __init__  flow."),
    ("The value <math>x^{-{a}-b} < 2</math> and ''x''<sup>2</sup>, <chem>H2O</chem>.",
     "The value x^{-{a}-b} < 2 and x2, H2O."),
    ("河-{zh-hans:计算机; zh-hant:電腦;}-流-{A|zh-cn:甲;zh-tw:乙}-向-{北}-方-{H|zh-cn:丙}-。-{T|丁}-",
     "河计算机流甲向北方。"),
    ("<b>{{x|[[a|b]]}}[[c|''d'']]</b> [https://e.example ''f'' g] https://h.example [https://i.example] {{{j|k}}}"
     "&lt;",
     "d f g https://h.example  k<"),
]  # fmt: skip


@pytest.mark.parametrize(("markup", "text"), RULES)
def test_rules_of_lines_and_words(markup: str, text: str) -> None:
    """Rules of MediaWiki, not of its raw markup: in code nothing is a list, a switch or a variant."""
    assert strip_markup(markup) == text


@pytest.mark.parametrize("opener", ["{{", "[[", "[", "{|", "<!--", "<b", "<ref>", "<div>", "<math>", "<nowiki>"])
def test_openers_that_nothing_closes_are_text(opener: str) -> None:
    """As the parser shows one of them, it shows a hundred, which it would read the rest of the page for, each."""
    for markup, text in RULES:
        for openers in (opener, " ".join([opener] * 100)):
            assert strip_markup(f"{markup}\n\nseen: {openers} end") == f"{text}\n\nseen: {openers} end"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[mediawiki\]'"):
        strip_markup("text")
