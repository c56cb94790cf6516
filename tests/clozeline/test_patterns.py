"""Regular expressions of users: a mistake and an endless search are named by their key."""

import threading

import pytest

from clozeline import patterns
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import matches
from clozeline.model.parameters.freezing import match_parameters
from clozeline.patterns import compile_pattern, use_pattern
from clozeline.pipeline.ingest.readers.text import ChapterSplit
from tests.refusals import refused

ENDLESS = "((a|b|[.])+)+!"
TEXT = "a" * 40

PLACES = {
    "split.pattern": lambda pattern: [*ChapterSplit(pattern=pattern).iter_chapters(TEXT)],
    "freeze": lambda pattern: match_parameters("freeze", pattern, [TEXT]),
    "model.adapter": lambda pattern: matches(pattern, TEXT),
}


@pytest.mark.parametrize("key", PLACES)
def test_a_search_without_end_is_stopped(monkeypatch, key):
    monkeypatch.setattr(patterns, "_LIMIT_S", 0.05)
    with refused(rf"{key}: .*more than"):
        PLACES[key](ENDLESS)


@pytest.mark.parametrize("wrong", ["(", "a{99999999999999}", "(" * 5000 + ")" * 5000])
def test_what_cannot_be_compiled_is_named(wrong):
    with pytest.raises(ValueError, match="expected a regular expression"):
        compile_pattern(wrong)
    with refused("freeze: expected a regular expression"):
        match_parameters("freeze", wrong, ["a"])


def test_other_threads_search_without_a_limit():
    found = []

    def search() -> None:
        with use_pattern("key", "a+$") as expression:
            found.extend(match.span() for match in expression.finditer("b\naa\nb"))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert found == [(2, 4)]


@pytest.mark.parametrize("pattern", ["query", "(?i)QUERY", "0.query", ".*"])
def test_a_path_is_matched_from_the_start_of_a_component(pattern):
    assert matches(pattern, "layers.0.query")
    assert not matches("uery", "layers.0.query")


def test_the_error_is_of_the_configuration():
    with pytest.raises(ConfigurationError), use_pattern("key", "["):
        pass
