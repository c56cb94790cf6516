from contextlib import suppress

import pytest

from clozeline.pipeline.clean.extractors import PageRefused
from clozeline.pipeline.clean.extractors._nesting_depth import refuse_deep_pages


@pytest.mark.parametrize(
    ("html", "depth"),
    [
        ("<div>" * 7, 7), ("<div></div>" * 50, 1), ("<div><p>" * 3 + "</div>" * 3, 3), ("</div>" * 9 + "<b>" * 4, 4),
        ("<p>" * 90, 0), ("<P>" * 90 + "<LI x>" * 90 + "<DIV>" * 2, 2), ("1 < 2 " * 90, 0),
        ("<div>" * 5 + "</div>" * 5 + "<i>" * 3, 5),
    ],
)  # fmt: skip
def test_the_depth_is_that_of_open_elements(html: str, depth: int) -> None:
    refuse_deep_pages(html, max(depth, 1))
    if depth:
        with pytest.raises(PageRefused, match="html_depth"):
            refuse_deep_pages(html, depth - 1)


def test_pages_with_few_start_tags_are_not_scanned() -> None:
    with suppress(PageRefused):
        refuse_deep_pages("<b>" * 3, 2)
    refuse_deep_pages("<b>x</b>" * 1000, 1)
