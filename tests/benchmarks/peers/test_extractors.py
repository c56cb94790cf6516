"""Extractors of the peers' environment: their texts, a time for each pass, and what is not installed is skipped."""

from __future__ import annotations

import sys

import pytest

from benchmarks.peers import extractors
from benchmarks.peers.datatrove_steps import ask


def test_each_extractor_reads_all_pages_once_and_once_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def extract(page: str) -> str | None:
        read.append(page)
        return page.removeprefix("<p>") or None

    monkeypatch.setattr(extractors, "find_extractors", lambda: {"one": extract, "two": extractors.summarize})
    monkeypatch.setattr(extractors, "summarize", lambda page: page)
    answers = extractors.extract_pages(["<p>a", "<p>"], repeats=2)
    assert answers["one"]["texts"] == ["a", ""]
    assert [answer["html"] for answer in answers.values()] == [False, True]
    assert [len(answer["seconds"]) for answer in answers.values()] == [3, 3]
    assert read == ["<p>a", "<p>"] * 3


def test_another_interpreter_answers_for_what_it_has() -> None:
    answers = ask(sys.executable, "1", ["<p>A page of text</p>"], extractors.__file__)
    assert answers.keys() == extractors.find_extractors().keys()
