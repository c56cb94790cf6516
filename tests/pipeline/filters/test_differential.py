"""Our filters against datatrove's on the same documents.

datatrove splits words and sentences with spaCy, which is neither installed nor wanted; its filters are given our
tokens and sentences, so the comparison is of the rules. One rule differs on purpose, and no document here shows it:
ours takes ” and ’ for terminal marks as well.
"""

import os
from collections import Counter

import pytest

from pipeline.filters.c4_quality import C4Quality
from pipeline.filters.gopher_quality import GopherQuality
from pipeline.filters.gopher_repetition import GopherRepetition
from pipeline.sentences.regex import Regex
from pipeline.text.text_statistics import TextStatistics
from tests.pipeline.filters.documents import documents

SENTENCES = Regex(Regex.Options())


def sentences(text, language):
    starts = SENTENCES.starts(text, "en")
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


@pytest.fixture
def peer(monkeypatch):
    monkeypatch.setitem(os.environ, "LOGURU_LEVEL", "ERROR")
    modules = [
        pytest.importorskip(f"datatrove.pipeline.filters.{name}", reason="datatrove's filters are not installed")
        for name in ("gopher_quality_filter", "gopher_repetition_filter", "c4_filters")
    ]
    for module in modules[:2]:
        monkeypatch.setattr(module, "split_into_words", lambda text, language: TextStatistics(text).tokens)
    monkeypatch.setattr(modules[2], "split_into_sentences", sentences)
    return modules


def compare(ours, theirs):
    """Reasons on each side, and the documents that differ."""
    from datatrove.data import Document

    reasons, differences = Counter(), []
    for number, text in enumerate(documents(400)):
        verdict = ours.judge(TextStatistics(text), "en")
        document = Document(text=text, id=str(number))
        answer = theirs.filter(document)
        reason = "" if answer is True else answer[1]
        reasons[reason] += 1
        edited = text if verdict.text is None else verdict.text
        if verdict.reason != reason or (not reason and edited.split() != document.text.split()):
            differences.append((number, verdict.reason, reason))
    return reasons, differences


def test_gopher_quality(peer):
    reasons, differences = compare(GopherQuality(GopherQuality.Options()), peer[0].GopherQualityFilter())
    # datatrove takes symbols outside its list (`•`, `$`) for words; ours need a letter or a digit.
    assert len(differences) <= 2, differences
    assert len(reasons) >= 4


def test_gopher_repetition(peer):
    reasons, differences = compare(GopherRepetition(GopherRepetition.Options()), peer[1].GopherRepetitionFilter())
    assert differences == []
    assert len(reasons) >= 6


def test_c4_quality(peer):
    reasons, differences = compare(C4Quality(C4Quality.Options()), peer[2].C4QualityFilter())
    assert differences == []
    assert len(reasons) == 4
