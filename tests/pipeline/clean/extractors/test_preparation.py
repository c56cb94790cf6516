"""Pages as both extractors get them: nothing hidden, each word of a reader, in HTML and XHTML."""

import pytest

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


def test_mathematics_stays_in_each_form():
    formula = (
        '<span class="katex"><math><mi>x</mi></math><span class="katex-html" '
        'aria-hidden="true">x</span></span>'
    )
    prepared = prepare_page(f"<body><p>{PROSE[0]} {formula}</p></body>")

    assert prepared.count("<math>") == prepared.count("katex-html") == 1


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


@both
def test_exponents_have_a_sign_and_footnotes_none(extractor):
    body = (
        "<p>It holds 3.2 × 10<sup>6</sup> m<sup>3</sup> of water, 10<sup>−9</sup> s a drop, says "
        f"the mayor<sup>1</sup> of 1998<sup><a href=#n>2</a></sup>.</p>{PARAGRAPHS}"
    )
    text = extract(extractor, body)

    assert "10^6 m^3 of water, 10^−9 s a drop" in text
    assert "mayor^" not in text
    assert "1998^" not in text


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

    prepared = prepare_page(page)

    assert len(prepared) <= len(page)
    assert "the secret" not in prepared
