"""Dumps of MediaWiki: pages against ElementTree, damage, hostile XML, and the text of wikitext."""

import bz2
import sys
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup
from tests.pipeline.captures import counted, read

HEAD = """<mediawiki xml:lang="de"><siteinfo><namespaces><namespace key="0"/><namespace key="6">Datei</namespace>
<namespace key="14">Kategorie</namespace></namespaces></siteinfo>
"""
PAGES = [
    ("Erste", "0", ["alter Text", "Die '''erste''' Seite &amp; mehr. [[Datei:a.jpg|mini]] [[Kategorie:Alle]]"]),
    ("Diskussion:Erste", "1", ["Rede"]),
    ("Umleitung", "0", ["\n#REDIRECT [[Erste]]"]),
    ("Umleitung 2", "0", ["#redirect: [[Erste]] {{x}}"]),
    ("Zweite 😀", "0", ["#Redirects gibt es.\n\n== Ende ==\nSchluß."]),
]


def page(title, namespace, texts):
    redirect = '<redirect title="Erste" />' if title == "Umleitung" else ""
    revisions = "".join(f"<revision><id>1</id><text>{escape(text)}</text></revision>" for text in texts)
    return f"  <page><title>{title}</title><ns>{namespace}</ns><id>1</id>{redirect}{revisions}</page>\n"


DUMP = (HEAD + "".join(page(*each) for each in PAGES) + "</mediawiki>\n").encode()


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.xml"
    path.write_bytes(DUMP)
    return path


@pytest.mark.parametrize("compress", [bytes, bz2.compress])
def test_articles_are_those_of_an_xml_tree(compress, tmp_path):
    path = tmp_path / "dump"
    path.write_bytes(compress(DUMP))
    items = read(path, name="mediawiki")
    articles = [item for item in items if isinstance(item, RawRecord)]
    pages = [each for each in ET.fromstring(DUMP).iter("page") if each.findtext("ns") == "0"]
    for item, element in zip(articles, [pages[0], pages[3]], strict=True):
        assert item.extra == {"title": element.findtext("title")}
        own = ET.fromstring(DUMP[item.locator : item.locator + item.length])
        assert own.findtext("title") == item.extra["title"]
    assert [item.text for item in articles] == ["Die erste Seite & mehr.", "- Redirects gibt es.\n\nEnde\nSchluß."]
    assert counted(items) == {"redirect": 2, "namespace_1": 1}


@pytest.mark.parametrize(
    "cut", [10, len(HEAD.encode()) + 3, DUMP.index(b"Rede"), DUMP.rindex(b"<page>") + 9, len(DUMP) - 4]
)
def test_a_dump_that_is_cut_keeps_its_complete_pages(cut, dump):
    whole = read(dump, name="mediawiki")
    dump.write_bytes(DUMP[:cut])
    items = read(dump, name="mediawiki")
    assert items[:-1] == whole[: DUMP[:cut].count(b"</page>")]
    assert counted(items[-1:]) == {"truncated": 1}


def test_wrong_xml_ends_the_dump_and_says_why(dump):
    dump.write_bytes(DUMP.replace(b"<id>1</id><redirect", b"<id>1</ix><redirect"))
    items = read(dump, name="mediawiki")
    assert [type(item) for item in items] == [RawRecord, Counted, Counted]
    assert items[-1].reason == "bad_xml"
    assert "mismatched tag" in items[-1].detail


def test_entities_and_long_pages_are_refused(dump):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + DUMP.decode()
    dump.write_bytes(bomb.encode())
    (item,) = read(dump, name="mediawiki")
    assert item.detail == "declares an entity, which no dump does"
    dump.write_bytes(DUMP)
    size = len(PAGES[0][2][-1])  # longer than any other text
    for limit, refused in ((size, 0), (size - 1, 1)):
        items = read(dump, name="mediawiki", limits=Limits(record_bytes=limit))
        assert counted(items).get("too_large", 0) == refused


def test_markup_goes_and_text_stays():
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
def test_rules_of_lines_and_words(markup, text):
    """Rules of MediaWiki, not of its raw markup: in code nothing is a list, a switch or a variant."""
    assert strip_markup(markup) == text


@pytest.mark.parametrize("opener", ["{{", "[[", "[", "{|", "<!--", "<b", "<ref>", "<div>", "<math>", "<nowiki>"])
def test_openers_that_nothing_closes_are_text(opener):
    """As the parser shows one of them, it shows a hundred, which it would read the rest of the page for, each."""
    for markup, text in RULES:
        for openers in (opener, " ".join([opener] * 100)):
            assert strip_markup(f"{markup}\n\nseen: {openers} end") == f"{text}\n\nseen: {openers} end"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[mediawiki\]'"):
        strip_markup("text")
