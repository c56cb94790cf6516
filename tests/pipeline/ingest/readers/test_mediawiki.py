"""Dumps of MediaWiki: pages against ElementTree, damage, hostile XML, and the text of wikitext."""

import bz2
import sys
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord, mediawiki
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup
from tests.pipeline.captures import counted

HEAD = """<mediawiki xml:lang="de"><siteinfo><namespaces><namespace key="0"/><namespace key="6">Datei</namespace>
<namespace key="14">Kategorie</namespace></namespaces></siteinfo>
"""
PAGES = [
    (
        "Erste",
        "0",
        ["alter Text", "Die '''erste''' Seite &amp; mehr. [[Datei:a.jpg|mini]] [[Kategorie:Alle]]"],
    ),
    ("Diskussion:Erste", "1", ["Rede"]),
    ("Umleitung", "0", ["\n#REDIRECT [[Erste]]"]),
    ("Umleitung 2", "0", ["#redirect: [[Erste]] {{x}}"]),
    ("Zweite 😀", "0", ["#Redirects gibt es.\n\n== Ende ==\nSchluß."]),
]


def page(title, namespace, texts):
    redirect = '<redirect title="Erste" />' if title == "Umleitung" else ""
    revisions = "".join(
        f"<revision><id>1</id><text>{escape(text)}</text></revision>" for text in texts
    )
    return (
        "  "
        f"<page><title>{title}</title><ns>{namespace}</ns><id>{len(title)}</id>{redirect}"
        f"{revisions}</page>\n"
    )


DUMP = (HEAD + "".join(page(*each) for each in PAGES) + "</mediawiki>\n").encode()


@pytest.mark.parametrize("compress", [bytes, bz2.compress])
def test_articles_are_those_of_an_xml_tree(compress, read_as):
    items = read_as(compress(DUMP))
    articles = [item for item in items if isinstance(item, RawRecord)]
    pages = [each for each in ET.fromstring(DUMP).iter("page") if each.findtext("ns") == "0"]
    for item, element in zip(articles, [pages[0], pages[3]], strict=True):
        assert item.extra == {name: element.findtext(name) for name in ("title", "id")}
        own = ET.fromstring(DUMP[item.locator : item.locator + item.length])
        assert own.findtext("title") == item.extra["title"]

    assert [item.text for item in articles] == [
        "Die erste Seite & mehr.",
        "- Redirects gibt es.\n\nEnde\nSchluß.",
    ]
    assert counted(items) == {"redirect": 2, "namespace_1": 1}


@pytest.mark.parametrize(
    "cut",
    [
        10,
        len(HEAD.encode()) + 3,
        DUMP.index(b"Rede"),
        DUMP.rindex(b"<page>") + 9,
        len(DUMP) - 4,
    ],
)
def test_a_dump_that_is_cut_keeps_its_complete_pages(cut, read_as):
    whole = read_as(DUMP)
    items = read_as(DUMP[:cut])
    assert items[:-1] == whole[: DUMP[:cut].count(b"</page>")]
    assert counted(items[-1:]) == {"truncated": 1}


def test_wrong_xml_ends_the_dump_and_says_why(read_as):
    items = read_as(DUMP.replace(b"<id>9</id><redirect", b"<id>9</ix><redirect"))
    assert [type(item) for item in items] == [RawRecord, SkippedRecord, SkippedRecord]
    assert items[-1].reason == "bad_xml"
    assert "mismatched tag" in items[-1].detail


def test_entities_and_long_pages_are_refused(read_as):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + DUMP.decode()
    (item,) = read_as(bomb)

    assert item.detail == "declares an XML entity, which MediaWiki dumps never do"

    size = len(PAGES[0][2][-1])  # longer than any other text
    for limit, refused in ((size, 0), (size - 1, 1)):
        items = read_as(DUMP, limits=InputLimits(record_bytes=limit))
        assert counted(items).get("too_large", 0) == refused


MODELS = [
    ("<model>wikitext</model><format>text/x-wiki</format>", True),
    ("<model>wikitext</model>", True),
    ("<format>text/x-wiki</format>", True),
    ("<model>proofread-page</model><format>text/x-wiki</format>", True),
    ("<model>wikibase-item</model><format>text/x-wiki</format>", "model_wikibase-item"),
    ("", True),
    ("<model>wikibase-item</model><format>application/json</format>", "model_wikibase-item"),
    ("<model>wikibase-property</model>", "model_wikibase-property"),
    ("<model>json</model><format>application/json</format>", "model_json"),
    ("<model>css</model><format>text/css</format>", "model_css"),
    ("<model>sanitized-css</model><format>text/css</format>", "model_sanitized-css"),
    ("<model>javascript</model><format>text/javascript</format>", "model_javascript"),
    ("<model>Scribunto</model><format>text/plain</format>", "model_Scribunto"),
    ("<format>text/css</format>", "model_text/css"),
    ("<model>an odd model!</model>", "model_other"),
]


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize(("fields", "wanted"), MODELS)
def test_pages_of_other_content_are_counted_by_their_model(read_as, fields, wanted, is_before):
    """Older dumps have the fields behind the text."""
    text = "<text>{&quot;type&quot;: 1}</text>"
    content = fields + text if is_before else text + fields
    items = read_as(
        f"<mediawiki><page><title>Q1</title><ns>0</ns><revision>{content}</revision></page></mediawiki>"
    )

    if wanted is True:
        assert [item.text for item in items] == ['{"type": 1}']
    else:
        assert counted(items) == {wanted: 1}


def test_the_last_revision_decides_by_its_main_text(read_as):
    """Further slots of a revision, such as the data of a picture, are no text of the page."""
    model = "<model>wikibase-mediainfo</model><format>application/json</format>"
    slot = f"<content><role>mediainfo</role>{model}<text>{{}}</text></content>"
    revisions = [
        "<revision><model>css</model><format>text/css</format><text>a {}</text></revision>",
        "<revision><model>wikitext</model><format>text/x-wiki</format><text>The "
        f"text.</text>{slot}</revision>",
    ]
    for order, wanted in ((revisions, ["The text."]), (revisions[::-1], [])):
        page = f"<page><title>A</title><ns>0</ns>{''.join(order)}</page>"
        items = read_as(f"<mediawiki>{page}</mediawiki>")
        assert [item.text for item in items if isinstance(item, RawRecord)] == wanted


def test_namespaces_of_old_dumps_are_known_by_title(read_as):
    head = HEAD.replace(
        '<namespace key="0"/>', '<namespace key="0"/><namespace key="10">Vorlage</namespace>'
    )
    titles = ["Vorlage:A", "vorlage:B", "Datei:C.jpg", "Erde: ein Planet", "Artikel"]
    pages = "".join(
        f"<page><title>{title}</title><revision><text>x</text></revision></page>"
        for title in titles
    )
    items = read_as(f"{head}{pages}</mediawiki>")

    assert [item.extra["title"] for item in items if isinstance(item, RawRecord)] == titles[3:]
    assert counted(items) == {"namespace_10": 2, "namespace_6": 1}


LINKS = [
    ("[[Bild:a.jpg|thumb|caption]] [[Datei:b.jpg]] [[image : c.png|left]] [[Archivo:d.jpg|x]]", ""),
    ("[[Kategorie:A]] [[Category:B]] [[ categoría:C ]] [[CATEGORY:D]]", ""),
    (
        "[[de:Brücke]]\n[[zh-min-nan:Kiô]]\n[[simple:Bridge]]\n[[fr:Pont|Pont]]\n[[be-x-old:Мост]] "
        "[[FR: Pont]]",
        "",
    ),
    (
        "[[:de:Brücke]], [[:Category:Bridges]], [[:File:a.jpg|the file]], [[: Bild:b.jpg]]",
        "de:Brücke, Category:Bridges, the file, Bild:b.jpg",
    ),
    (
        "[[wikt:bridge|bridge]], [[Cookbook:Casserole|casserole]], [[Media:a.ogg|listen]], "
        "[[Alien: Covenant]]",
        "bridge, casserole, listen, Alien: Covenant",
    ),
    ("[[es:Puente]], [[Puente]]", "es:Puente, Puente"),
]


@pytest.mark.parametrize(("markup", "text"), LINKS)
def test_links_to_files_categories_and_other_languages_are_no_text(read_as, markup, text):
    """By the namespaces of the dump, their English and German names, and the codes of the other
    Wikipedias."""
    head = (
        HEAD.replace("Datei", "Archivo").replace("Kategorie", "Categoría").replace('"de"', '"es"')
    )
    (item,) = read_as(f"{head}{page('A', '0', [markup])}</mediawiki>")

    assert item.text == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("enwiki", "en:A"), ("enwiktionary", "en:A"), ("simplewiki", ""), ("", "en:A")],
)
def test_links_to_the_own_wiki_are_text(read_as, name, text):
    """The wiki of simple English names its language `en`, which is another wiki."""
    site = f"<siteinfo><dbname>{name}</dbname></siteinfo>" if name else ""
    (item,) = read_as(
        f'<mediawiki xml:lang="en">{site}{page("A", "0", ["[[en:A]] [[de:A]]"])}</mediawiki>'
    )

    assert item.text == text


def test_a_page_that_no_wiki_allows_holds_no_worker(read_as, monkeypatch):
    monkeypatch.setattr(mediawiki, "_LONGEST_PAGE", 1000)
    for size, wanted in ((1000, {}), (1001, {"too_large": 1})):
        found = read_as(f"<mediawiki>{page('A', '0', ['x' * size])}</mediawiki>")
        assert counted(found) == wanted


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

    text = (
        "Bold and italic link, Plain.\n\nHistory\n- first\n- second\nindented site\n\nCafé [[raw]]"
    )

    assert strip_markup(markup) == text


RULES = [
    (
        "A:\n<pre>\n#include <a.h>\n* b\n</pre>\n<code>\n# c</code> <nowiki>* "
        "d</nowiki>\n#one\n*#; two\n:;three",
        "A:\n\n#include <a.h>\n* b\n\n# c * d\n- one\ntwo\nthree",
    ),
    ('<syntaxhighlight lang="c">\n#define x __FILE__\n</syntaxhighlight>', "#define x __FILE__"),
    (
        "Joy is.<br>It pleases.<br />So they say.<p>A</p><p>B</p>",
        "Joy is.\nIt pleases.\nSo they say.\nA\n\nB",
    ),
    (
        "__NOTOC__\nRivers __init__ __NOEDITSECTION__ flow.\n__KEIN_INHALTSVERZEICHNIS__\n",
        "Rivers __init__  flow.",
    ),
    (
        "The value <math>x^{-{a}-b} < 2</math> and ''x''<sup>2</sup>, <chem>H2O</chem>.",
        "The value x^{-{a}-b} < 2 and x2, H2O.",
    ),
    (
        "河-{zh-hans:计算机; zh-hant:電腦;}-流-{A|zh-cn:甲;zh-tw:乙}-向-{北}-方-{H|zh-cn:丙}-。-{T|丁}-",
        "河计算机流甲向北方。",
    ),
    (
        "<b>{{x|[[a|b]]}}[[c|''d'']]</b> [https://e.example ''f'' g] https://h.example "
        "[https://i.example] {{{j|k}}}&lt;",
        "d f g https://h.example  k<",
    ),
]


@pytest.mark.parametrize(("markup", "text"), RULES)
def test_rules_of_lines_and_words(markup, text):
    """Rules of MediaWiki, not of its raw markup: in code nothing is a list, a switch or a
    variant."""
    assert strip_markup(markup) == text


@pytest.mark.parametrize(
    "opener", ["{{", "[[", "[", "{|", "<!--", "<b", "<ref>", "<div>", "<math>", "<nowiki>"]
)
def test_openers_that_nothing_closes_are_text(opener):
    """As the parser shows one of them, it shows a hundred, which it would read the rest of the page
    for, each."""
    for markup, text in RULES:
        for openers in (opener, " ".join([opener] * 100)):
            assert (
                strip_markup(f"{markup}\n\nseen: {openers} end") == f"{text}\n\nseen: {openers} end"
            )


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[mediawiki\]'"):
        strip_markup("text")
