"""Options of readers beside the keys of an input: each belongs to a reader, and a misspelled one is told."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.reader_options import check_options, options_of


def test_a_reader_gets_those_of_the_options_that_it_has() -> None:
    given = {"text_key": "body", "url_key": None, "columns": ["text"]}
    assert options_of("jsonl", given) == {"text_key": "body"}
    assert options_of("tsv", given) == {"columns": ["text"]}
    assert options_of("html", given) == {}


@pytest.mark.parametrize(
    ("given", "readers"),
    [
        ({}, ["html"]),
        ({"text_key": "body"}, ["jsonl"]),
        ({"text_key": "body"}, ["html", "jsonl"]),
        ({"text_key": "body"}, None),
        ({"text_key": "text", "columns": None}, ["html"]),
    ],
)
def test_options_that_some_reader_has_or_that_ask_for_nothing_are_right(
    given: dict[str, Any], readers: list[str] | None
) -> None:
    check_options(given, readers)


@pytest.mark.parametrize(
    ("given", "readers", "message"),
    [
        ({"text_key": "body"}, ["html"], "unknown key 'text_key' (not an option of the reader html)"),
        ({"text_kye": "body"}, ["jsonl"], "(not an option of the reader jsonl); did you mean 'text_key'?"),
        ({"text_kye": "body"}, None, "(no reader has it); did you mean 'text_key'?"),
        ({"paht": "a"}, None, "did you mean 'path'?"),
        ({"text_key": 3}, ["jsonl"], "reader jsonl: text_key: expected a valid string, got 3"),
    ],
)
def test_others_are_told(given: dict[str, Any], readers: list[str] | None, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_options(given, readers, keys=("path", "source"))
    assert message in str(caught.value)
