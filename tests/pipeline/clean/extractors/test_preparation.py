"""Pages as both extractors get them: nothing hidden, each word of a reader, in HTML and XHTML."""

from contextlib import closing

import pytest

from clozeline.pipeline.clean.extractors._extraction import ExtractorProcess
from clozeline.pipeline.clean.extractors._preparation import prepare_page
from clozeline.pipeline.registries import EXTRACTORS

PROSE = [
    "The river rises in the hills above the old town and flows north through a wide valley.",
    "For three centuries its water drove the mills, and the millers paid their rent in flour.",
    "In the spring of that year a flood carried away two bridges, and people crossed by boat for "
    "months.",
    "The council voted to build a new bridge of stone, which still stands beside the market "
    "square.",
]


def extract(extractor, body, head="<html><head><title>T</title></head>"):
    text = (
        EXTRACTORS.resolve(extractor)
        .build()
        .extract(
            prepare_page(f"{head}<body><article><h1>The river</h1>{body}</article></body></html>")
        )
    )

    return " ".join(text.split())


both = pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura"])
PARAGRAPHS = "".join(f"<p>{sentence}</p>" for sentence in PROSE)


@both
@pytest.mark.parametrize("tag", ["span", "b", "label", "div", "p"])
@pytest.mark.parametrize(
    ("attribute", "hides"),
    [
        ("hidden", True),
        ("aria-hidden=true", True),
        ("style='color:red; DISPLAY : none !important'", True),
        ("style='visibility:hidden'", True),
        ("style='backface-visibility:hidden'", False),
        ("style='--x-display:none'", False),
        ("style='display:none;display:block'", False),
        ("aria-hidden=false", False),
        ("hidden=until-found", False),
    ],
)
def test_what_a_page_hides_is_gone_and_nothing_else(extractor, tag, attribute, hides):
    if tag == "label" and not hides:
        pytest.skip("both extractors drop labels")
    secret = "The crew sank both of their boats behind the lower mill at night."
    text = extract(
        extractor,
        f"{PARAGRAPHS}<div><{tag} {attribute}>{secret}</{tag}> And they left the town.</div>",
    )

    assert all(sentence in text for sentence in PROSE)
    assert (secret in text) is not hides


@both
@pytest.mark.parametrize(
    "attribute",
    ["hidden", "style='display:none'", "style='visibility: hidden'", "aria-hidden=true"],
)
def test_a_container_that_a_script_reveals_is_shown(extractor, attribute):
    text = extract(extractor, f"<div {attribute}>{PARAGRAPHS}</div>")
    assert all(sentence in text for sentence in PROSE)


TEX = (
    "<math><msup><mi>x</mi><mn>2</mn></msup><annotation-xml><ci>x</ci></annotation-xml>"
    "<annotation encoding='application/x-tex'>x_2</annotation></math>"
)
MATHML = TEX.replace("x-tex", "x-other")
WIKI = "{\\displaystyle x_2}"
COPY = "<span class=MathJax_Preview>x2</span><span class=MathJax><nobr aria-hidden=true>x2</nobr>"


@both
@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (f"<span class=katex>{TEX}<span class=katex-html aria-hidden=true>x2</span></span>", "x_2"),
        ("<span class=katex><span class=katex-html aria-hidden=true>x2</span></span>", "x2"),
        (f"{COPY}{MATHML}</span><script type='math/tex'>x_2</script>", "x_2"),
        ("<script type='math/tex'>% <![CDATA[\nx_2 %]]></script>", "x_2"),
        (f"{COPY}{MATHML}</span>".replace("Preview>x2", "Preview>"), "x^2"),
        (f"<mjx-container><svg/><mjx-assistive-mml>{MATHML}</mjx-assistive-mml>", "x^2"),
        (f"<span class=mwe-math-element><i style='display:none'>{TEX}</i><img alt=x_2>", "x_2"),
        (f"<span class=mwe-math-element><img alt='{WIKI}'></span>", "x_2"),
        (f"<b class=katex-display><span class=katex>{TEX}</span></b>", "x_2 "),
        ("<math alttext='x_2'><mi>x</mi><mn>2</mn></math>", "x_2"),
        ("<math>\n <mi>x</mi>\n <mo>+</mo>\n <mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "x+1/2"),
    ],
)
def test_formulas_are_written_once(extractor, formula, text):
    found = extract(
        extractor, f"{PARAGRAPHS}<p>Let {formula}</span></mjx-container>, a prime, be.</p>"
    )

    assert f"Let {text}, a prime, be." in found


@both
@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("in 1888<sup><a>1</a></sup>", "in 1888"),
        ("in 1888<sup><a href=#n>[</a>a<a>]</a></sup><sup><a>[note 2]</a></sup>", "in 1888"),
        ("in 1888<a href=#fn1><sup>1</sup></a>", "in 1888"),
        ("in 1888<a href=#_ftn1><span><span>[1]</span></span></a>", "in 1888"),
        ("in 1888<a class=footnote-anchor href=#x>12</a>", "in 1888"),
        ("in<sup><a>1</a>,<a>3</a>–<a>4</a></sup> 1888", "in 1888"),
        ("days.<sup>3</sup>", "days."),
        ("days.³", "days."),
        ("“no”<sup>†</sup>", "“no”"),
        ("3.2 × 10<sup>6</sup> m<sup>3</sup>, 10<sup>−9</sup> s", "3.2 × 10^6 m^3, 10^−9 s"),
        ("the mayor<sup>1</sup>", "the mayor1"),
        ("1<sup><a>st</a></sup>", "1st"),
        ("2<sup>nd</sup>", "2nd"),
        ("(a+b)<sup>2</sup>", "(a+b)2"),
        ("H<sub>2</sub>O", "H2O"),
        ("<a href=/x>5 km<sup>2</sup></a>", "5 km^2"),
        ("for $3.<sup>99</sup>", "for $3.99"),
        ("pure ³He, x²", "pure ³He, x²"),
        ("see note <a href=#note3>3</a>", "see note 3"),
        ("shall <del>refuse</del><ins>grant</ins> <s>3</s>5", "shall grant 5"),
    ],
)
def test_references_and_deleted_words_go(extractor, markup, text):
    process = ExtractorProcess(EXTRACTORS.resolve(extractor))
    page = f"<body><article>{PARAGRAPHS}<p>A sentence says {markup} of it all.</p></article></body>"

    with closing(process):
        assert f"says {text} of it all." in process.extract(page).text


@both
def test_a_deletion_without_an_end_deletes_nothing(extractor):
    """Pages about language models write the token of a sequence's start as it is."""
    page = f"{PARAGRAPHS}<p>A row begins with <s> and two words.</p><p>{PROSE[0]} So ends it.</p>"
    text = extract(extractor, page)

    assert "and two words." in text
    assert "So ends it." in text


@both
@pytest.mark.parametrize("item", ["<li><p>{} <a href=x>More.</a></p></li>", "<li>{}</li>"])
def test_lists_between_paragraphs_stay_and_menus_go(extractor, item):
    menu = "".join(f"<li><a href=/{name}>Page on {name}</a></li>" for name in ("mills", "boats"))
    items = "".join(map(item.format, PROSE))
    text = extract(extractor, f"{PARAGRAPHS}<ul>{items}</ul>{PARAGRAPHS}", f"<body><ul>{menu}</ul>")

    assert text.count(PROSE[2]) == 3
    assert "Page on boats" not in text


@both
def test_questions_in_buttons_are_text(extractor):
    questions = "".join(
        f"<{tag}><button type=button>Who paid for <b>{tag}</b>?</button></{tag}><p>{PROSE[0]}</p>"
        for tag in ("h2", "h3")
    )
    text = extract(extractor, questions + PARAGRAPHS)

    assert all(f"Who paid for {tag}?" in text for tag in ("h2", "h3"))


@both
def test_readings_go_and_the_word_stays(extractor):
    ruby = "<ruby>竹取<rp>(</rp><rt>たけとり</rt><rp>)</rp></ruby>の<ruby><rb>翁</rb><rt>おきな</rt></ruby>は川にいた。"
    text = extract(
        extractor, f"<p>{ruby}毎日山へ行って竹を切り、籠を作って町で売っていた。</p>" * 5
    )

    assert "竹取の翁は川にいた" in text
    assert "たけとり" not in text


XHTML = (
    "<?xml version='1.0' encoding='utf-8'?>\n<html "
    "xmlns='http://www.w3.org/1999/xhtml'><head>{}</head>"
)


@both
@pytest.mark.parametrize(
    "closed", ["<title/>", "<script src='a.js' />", "<style type='x'/>", "<title>T</title>"]
)
@pytest.mark.parametrize(
    "body", ["", "<p>Not closed<br> at all</p>", "<p>An entity:&nbsp;none</p>"]
)
def test_xhtml_ends_where_it_says(extractor, closed, body):
    last = "<p><b/>And so on, for many more years than anybody knew.</p>"
    text = extract(extractor, f"<div>{body}{PARAGRAPHS}{last}</div>", XHTML.format(closed))
    assert all(sentence in text for sentence in PROSE)
    assert "And so on" in text


def test_entities_are_neither_expanded_nor_read(tmp_path):
    (tmp_path / "secret").write_text("the secret")
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    page = (
        f'<!DOCTYPE html [<!ENTITY a0 "laugh">{levels}<!ENTITY file SYSTEM '
        f'"file://{tmp_path}/secret">]>'
        "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>&a11; &file;</p></body></html>"
    )

    prepared = str(prepare_page(page))

    assert len(prepared) <= 2 * len(page)
    assert "the secret" not in prepared
