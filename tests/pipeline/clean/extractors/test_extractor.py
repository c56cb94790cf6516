"""Promises of every extractor."""

from __future__ import annotations

import inspect

import pytest

from clozeline.errors import ConfigurationError
from clozeline.registry import choose, find, names

NAMES = names("clozeline.pipeline.clean.extractors")


@pytest.mark.parametrize("name", NAMES)
def test_an_extractor_keeps_the_contract(name: str) -> None:
    kind = find("clozeline.pipeline.clean.extractors", name)
    assert isinstance(kind.VERSION, int)
    assert inspect.getdoc(kind)
    extractor = kind(choose("clozeline.pipeline.clean.extractors", name).options)
    assert extractor.extract("<html><body><p>One sentence.</p></body></html>").strip() == "One sentence."
    for page in ("", "plain", "<", "<p", "\0<p>x", "<html>" * 50, "</p></html>", "<!--", "<p>\ufffd\u200b"):
        assert "<html>" not in extractor.extract(page)


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": 3601}, {"memory_bytes": 1 << 27}])
@pytest.mark.parametrize("name", NAMES)
def test_limits_have_bounds(name: str, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        choose("clozeline.pipeline.clean.extractors", {"name": name, **wrong})
    assert choose("clozeline.pipeline.clean.extractors", name).options.timeout_s == 5.0
