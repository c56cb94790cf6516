import pytest

from clozeline.pipeline.clean.extractors._preparation import is_deeper


@pytest.mark.parametrize(
    ("html", "depth"),
    [
        ("<div>" * 7, 7), ("<div></div>" * 50, 1), ("<div><p>" * 3 + "</div>" * 3, 3), ("</div>" * 9 + "<b>" * 4, 4),
        ("<p>" * 90, 0), ("<P>" * 90 + "<LI x>" * 90 + "<DIV>" * 2, 2), ("1 < 2 " * 90, 0),
        ("<div>" * 5 + "</div>" * 5 + "<i>" * 3, 5),
    ],
)  # fmt: skip
def test_the_depth_is_that_of_open_elements(html: str, depth: int) -> None:
    assert not is_deeper(html, max(depth, 1))
    assert not depth or is_deeper(html, depth - 1)


@pytest.mark.parametrize(
    "page", ["<div>" * 6000, "<table><tr><td>" * 6000, "<b>" * 6000, "</div>" * 9000 + "<div>" * 6000, "<a" * 9000]
)
def test_deep_pages(page: str) -> None:
    assert is_deeper(page, 5000)


@pytest.mark.parametrize("page", ["<p>x" * 9000, "<li>x" * 9000, "<div>x</div>" * 9000, "<br>" * 9000, "1 < 2 " * 9000])
def test_long_flat_pages(page: str) -> None:
    assert not is_deeper(page, 5000)
