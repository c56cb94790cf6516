from clozeline.pipeline.clean.extractors.trafilatura import Trafilatura
from tests.pipeline.clean.extractors.written_pages import EXTRA, page


def test_the_article_without_menu_and_links() -> None:
    extractor = Trafilatura(Trafilatura.Options())
    text = extractor.extract(page(f"<p>{EXTRA} <a href='/x'>here</a></p>"))
    assert EXTRA in text
    assert "Another story" not in text
    assert "/x" not in text
    assert extractor.extract_leniently(page("")) == ""
