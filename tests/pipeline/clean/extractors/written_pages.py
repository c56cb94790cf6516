"""Pages written for the tests, each with a rule of extraction, and the text that must come out."""

from __future__ import annotations

PROSE = {
    "en": (
        "The river rose during the night, and by the morning the lower fields were under water.",
        "Nobody had seen such a flood in forty years, said the miller, who had moved his horses to the hill.",
        "When the water fell, the village found its bridge gone, but every house was still standing.",
        "The council met on the same evening, and it voted to build a new bridge of stone before the winter.",
    ),
    "zh": (
        "夜里河水上涨，到了早晨，低处的田地已经全部被水淹没，村民们站在山坡上看着。",
        "磨坊主说，四十年来没有人见过这样的洪水，他早已把马匹转移到了山上。",
        "水退以后，村里的人发现桥已经不见了，但是所有的房子都还立在那里。",
        "当天晚上议会开会，决定在冬天到来之前，用石头重新建造一座坚固的桥。",
    ),
    "ja": (
        "夜のあいだに川の水が増え、朝には低いところの畑がすっかり水の下に沈んでいた。",
        "四十年のあいだ、こんな洪水を見た者はいないと、馬を丘へ移した粉屋が言った。",
        "水が引いてみると、橋は流されていたが、家は一軒も倒れずに残っていた。",
        "その晩に村の会議が開かれ、冬が来る前に石の橋を新しく架けることが決まった。",
    ),
    "ar": (
        "ارتفع النهر خلال الليل، وفي الصباح كانت الحقول المنخفضة تحت الماء، ووقف الناس على التل.",
        "قال الطحان الذي نقل خيوله إلى التل إن أحدا لم ير مثل هذا الفيضان منذ أربعين سنة.",
        "وعندما انخفض الماء وجدت القرية أن الجسر قد اختفى، لكن كل البيوت كانت ما تزال قائمة.",
        "اجتمع المجلس في المساء نفسه، وقرر أن يبني جسرا جديدا من الحجر قبل الشتاء.",
    ),
    "he": (
        "הנהר עלה במשך הלילה, ובבוקר היו השדות הנמוכים מתחת למים, ואנשי הכפר עמדו על הגבעה.",
        "איש לא ראה שיטפון כזה מזה ארבעים שנה, אמר הטוחן, שהעביר את סוסיו אל הגבעה.",
        "כשירדו המים גילה הכפר שהגשר נעלם, אבל כל הבתים עדיין עמדו על מקומם.",
        "המועצה התכנסה באותו ערב, והחליטה לבנות גשר חדש מאבן לפני החורף.",
    ),
}
NAV = "".join(f"<li><a href='/{word}'>{word}</a></li>" for word in ("Home", "News", "Sport", "Weather", "Contact"))
LINKS = "".join(f"<li><a href='/{number}'>Another story of the day, number {number}</a></li>" for number in range(8))


def page(inner: str, language: str = "en", head: str = "") -> str:
    """Return an article of a title, two paragraphs, `inner` and two paragraphs, with a menu, links and a footer."""
    one, two, three, four = PROSE[language]
    return (
        f"<!doctype html><html><head><title>The flood</title>{head}</head><body>"
        f"<nav class='main-menu'><ul>{NAV}</ul></nav><main><article class='article-body'>"
        f"<h1>The flood</h1><p>{one}</p><p>{two}</p>{inner}<p>{three}</p><p>{four}</p></article></main>"
        f"<aside class='sidebar related'><h3>Most read</h3><ul>{LINKS}</ul></aside>"
        "<footer class='site-footer'><p>Copyright 2024 The Valley Times. <a href='/terms'>Terms</a></p></footer>"
        "</body></html>"
    )


def text(inner: str = "", language: str = "en", title: str = "The flood") -> str:
    """Return the text of `page`."""
    one, two, three, four = PROSE[language]
    return "\n\n".join(part for part in (title, one, two, inner, three, four) if part)


EXTRA = "Two days later the first carts crossed the river by a ferry, which the carpenter had built of old barrels."
MORE = (
    "It carried six people at a time, and it cost nothing, because the carpenter wanted to be mayor, as everybody knew."
)
_ENGLISH: dict[str, tuple[str, str]] = {
    "inline elements join": (f"<p>Two <b>days</b> later the <i>fir</i>st{EXTRA[24:]}</p>", EXTRA),
    "white space folds": (f"<p>  {EXTRA.replace(' ', chr(10) + chr(9))}&nbsp; </p>", EXTRA),
    "a div is a paragraph": (f"<div>{EXTRA}</div>", EXTRA),
    "text and blocks in a div": (f"<div>{EXTRA}<p>{MORE}</p></div>", f"{EXTRA}\n\n{MORE}"),
    "one br is a line": (f"<p>{EXTRA}<br>{MORE}</p>", f"{EXTRA}\n{MORE}"),
    "two br are a paragraph": (f"<div>{EXTRA}<br> <br/>{MORE}</div>", f"{EXTRA}\n\n{MORE}"),
    "a rule ends a block": (f"<div>{EXTRA}<hr>{MORE}</div>", f"{EXTRA}\n\n{MORE}"),
    "a list": (f"<ul><li>{EXTRA}</li><li>{MORE}</li></ul>", f"- {EXTRA}\n- {MORE}"),
    "nested lists": (
        f"<ul><li>{EXTRA}<ul><li>{MORE}<ol><li>{EXTRA}</li></ol></li></ul></li><li>{MORE}</li></ul>",
        f"- {EXTRA}\n  - {MORE}\n    - {EXTRA}\n- {MORE}",
    ),
    "paragraphs of an item": (f"<ol><li><p>{EXTRA}</p><p>{MORE}</p></li></ol>", f"- {EXTRA}\n  {MORE}"),
    "a table of data": (
        "<table><tr><th>Day of the flood</th><th>Height of the water, in meters</th></tr>"
        "<tr><td>Monday, the second day.</td><td>4.5, the highest since 1980.</td></tr></table>",
        "Day of the flood | Height of the water, in meters\n"
        "Monday, the second day. | 4.5, the highest since 1980.",
    ),
    "a table of layout": (f"<table><tr><td><p>{EXTRA}</p><p>{MORE}</p></td></tr></table>", f"{EXTRA}\n\n{MORE}"),
    "preformatted lines": (
        "<pre>def cross(river, people):\n    while people:   \n        people -= 6  # the ferry, as built.\n</pre>",
        "def cross(river, people):\n    while people:\n        people -= 6  # the ferry, as built.",
    ),
    "an annotation of MathML": (
        f"<p>{EXTRA} <math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation>"
        "</semantics></math> people.</p>",
        f"{EXTRA} x^2 people.",
    ),
    "MathML with alttext": (f"<p>{EXTRA} <math alttext='n^2'><mi>n</mi></math> people.</p>", f"{EXTRA} n^2 people."),
    "bare MathML": (f"<p>{EXTRA} <math><mi>a</mi><mo>+</mo><mn>1</mn></math> people.</p>", f"{EXTRA} a + 1 people."),
    "KaTeX": (
        f"<p>{EXTRA} <span class='katex'><span class='katex-mathml'><math><semantics><mi>y</mi><annotation encoding="
        "'application/x-tex'>y_1</annotation></semantics></math></span><span class='katex-html' aria-hidden='true'>y1"
        "</span></span> people.</p>",
        f"{EXTRA} y_1 people.",
    ),
    "MathJax": (
        f"<p>{EXTRA} <span class='MathJax_Preview'>zz</span><script type='math/tex'>z^3</script> people.</p>",
        f"{EXTRA} z^3 people.",
    ),
    "hidden MathML of a wiki": (
        f"<p>{EXTRA} <span class='mwe-math' style='display: none'><math alttext='q'><mi>q</mi></math></span>.</p>",
        f"{EXTRA} q.",
    ),
    "ruby": (f"<p>{EXTRA} <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>.</p>", f"{EXTRA} 漢."),
    "scripts and styles": (f"<script>var x = '<p>{MORE}</p>'</script><style>p {{}}</style><p>{EXTRA}</p>", EXTRA),
    "forms": (f"<p>{EXTRA}<button>Send now</button></p><select><option>{MORE}</option></select>", EXTRA),
    "hidden elements": (
        f"<p hidden>{MORE}</p><div style='display:none'>{MORE}</div><p aria-hidden='true'>{MORE}</p><p>{EXTRA}</p>",
        EXTRA,
    ),
    "comments of the markup": (f"<!-- <p>{MORE}</p> --><p>{EXTRA}</p>", EXTRA),
    "a caption stays out of the paragraph": (f"<figure><img src='x.png' alt='A ferry'></figure><p>{EXTRA}</p>", EXTRA),
    "headings": (f"<h2>The ferry of the carpenter</h2><p>{EXTRA}</p>", f"The ferry of the carpenter\n\n{EXTRA}"),
    "quotes": (f"<blockquote><p>{EXTRA}</p></blockquote>", EXTRA),
}  # fmt: skip

PAGES: dict[str, tuple[str, str]] = {
    **{name: (page(inner), text(expected)) for name, (inner, expected) in _ENGLISH.items()},
    **{language: (page("", language), text("", language)) for language in ("zh", "ja", "ar", "he")},
    "tiny": ("<html><body><p>One sentence.</p></body></html>", "One sentence."),
    "text straight under body": (f"<body>{EXTRA}<br><br>{MORE}", f"{EXTRA}\n\n{MORE}"),
}
"""HTML and expected text, by rule."""
MENU = f"<html><body><ul>{NAV}</ul><div class='menu'>{LINKS * 5}</div></body></html>"
"""A page without main text."""
