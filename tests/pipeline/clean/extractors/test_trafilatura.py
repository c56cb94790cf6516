import pytest

from clozeline.pipeline.clean.extractors import PageRefused
from tests.pipeline.clean.extractors.written_pages import EXTRA, page

pytest.importorskip("trafilatura", reason="the extra `trafilatura` is not installed")


def test_the_article_without_menu_and_links() -> None:
    from clozeline.pipeline.clean.extractors.trafilatura import Trafilatura

    extractor = Trafilatura(Trafilatura.Options())
    text = extractor.extract(page(f"<p>{EXTRA} <a href='/x'>here</a></p>"))
    assert EXTRA in text
    assert "Another story" not in text
    assert "/x" not in text
    assert extractor.extract_leniently(page("")) == ""
    with pytest.raises(PageRefused, match="html_depth"):
        extractor.extract("<div>" * 6000)


def test_fast_is_the_default() -> None:
    from clozeline.pipeline.clean.extractors.trafilatura import Trafilatura

    assert Trafilatura.Options().fast
