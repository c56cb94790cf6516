from __future__ import annotations

import pytest

from clozeline.pipeline.clean.extractors._page_walk import ARTICLE_BODY, TAGS, read_page

PAGE = (
    "<body>zero<div class='a'>one <a href=/>two <b>three</b></a><p id='nav'>four</p>five</div>"
    "<div class='a'><p>six</p></div><a href=/><div>seven</div></a></body>"
)


def test_frames_and_blocks() -> None:
    page = read_page(PAGE)
    assert page.texts == ["zero", "one two three", "four", "five", "six", "seven"]
    assert [TAGS[tag] for tag in page.tag] == ["body", "div", "p", "div", "p", "div"]
    assert page.parent == [-1, 0, 1, 0, 3, 0]
    assert page.frame == [0, 1, 2, 1, 4, 5]
    assert list(zip(page.start, page.end, strict=True)) == [(0, 6), (1, 4), (2, 3), (4, 5), (4, 5), (5, 6)]
    assert page.link_characters == [0, 8, 0, 0, 0, 5]
    assert page.links == [0, 1, 0, 0, 0, 1]
    assert page.emphasized == [0, 5, 0, 0, 0, 0]


def test_equal_paths_of_tags_and_classes_have_equal_signatures() -> None:
    page = read_page(PAGE)
    assert page.signature[1] == page.signature[3]
    assert page.signature[2] == page.signature[4]
    assert len(set(page.signature)) == 4


def test_hints_of_roles_and_item_properties() -> None:
    page = read_page("<div role=navigation>a</div><div itemprop=articleBody>b</div><div>c</div>")
    assert page.hints[1]
    assert page.hints[2] == ARTICLE_BODY
    assert page.hints[3] == 0


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("", []),
        ("<p> \n&nbsp;</p>", []),
        ("a<b>b</b>c", ["abc"]),
        ("a<p>b", ["a", "b"]),
        ("a<br>b<br><br>c", ["a\nb", "c"]),
        ("<br><br>a<br>", ["a"]),
        ("a<br>b<br>c", ["a\nb\nc"]),
        ("<pre>a\n  b<br>c  \n\n</pre>", ["a\n  b\nc"]),
        ("<pre>a<b>b</b>\r\nc</pre>", ["ab\nc"]),
        ("a<hr>b", ["a", "b"]),
        ("<svg><text>x</text></svg>a<iframe>y</iframe>", ["a"]),
        ("<x-own>a<y-own>b</y-own></x-own>", ["ab"]),
        ("<template><p>x</p></template>a<dialog>b</dialog>", ["a"]),
        ("<textarea>x</textarea><label>a</label>", ["a"]),
        ("<p><script type='math/tex; mode=display'>x</script>", ["x"]),
        ("<p><script type='math/tex'>x</script><span class='MathJax'>y</span>", ["x"]),
        ("<span class='MathJax'>y</span>", ["y"]),
        ("<math><mi>x</mi><mo>=</mo></math>", ["x ="]),
    ],
)
def test_texts(html: str, texts: list[str]) -> None:
    assert read_page(html).texts == texts


def test_each_node_is_visited_once() -> None:
    assert read_page("<p>a<b>b</b></p>" * 100).nodes == 400
    assert read_page("<svg>" + "<g></g>" * 100 + "</svg>").nodes == 1


def test_element_names_outside_the_standard_never_mix() -> None:
    """The parser's numbers for them are addresses, which other pages use again."""
    for number in range(200):
        assert read_page(f"<x{number}>a</x{number}><p>b</p>").texts == ["a", "b"]
