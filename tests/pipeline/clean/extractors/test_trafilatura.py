from importlib.util import find_spec

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.extractors import PageRefused, trafilatura
from clozeline.pipeline.clean.extractors.trafilatura import Trafilatura
from clozeline.registry import choose
from tests.pipeline.clean.extractors.written_pages import EXTRA, page

with_extra = pytest.mark.skipif(find_spec("trafilatura") is None, reason="the extra `trafilatura` is not installed")


@with_extra
def test_the_article_without_menu_and_links() -> None:
    extractor = Trafilatura(Trafilatura.Options())
    text = extractor.extract(page(f"<p>{EXTRA} <a href='/x'>here</a></p>"))
    assert EXTRA in text
    assert "Another story" not in text
    assert "/x" not in text
    assert extractor.extract_leniently(page("")) == ""
    with pytest.raises(PageRefused, match="html_depth"):
        extractor.extract("<div>" * 6000)


@with_extra
def test_fast_is_the_default() -> None:
    assert Trafilatura.Options().fast


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trafilatura, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[trafilatura\]'"):
        choose("clozeline.pipeline.clean.extractors", "trafilatura")
