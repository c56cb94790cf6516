"""One document through the steps: each character is kept or removed by a step that says so."""

import re
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import Filter, Verdict
from clozeline.pipeline.clean.unit import CleaningSteps, SourceSteps
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import EXTRACTORS, FILTERS, LANGUAGES
from clozeline.pipeline.text.normal_form import normalize

ENGLISH = (
    "All human beings are born free and equal in dignity and rights, and should act in a spirit of "
    "brotherhood. "
)


def steps(language=None, filters=(), pair_filters=(), text_chars=1000):
    tally = UnitCounts(0, 0.0)
    tally.start_file("a", [], [])
    chosen = [[FILTERS.resolve(one) for one in some] for some in (filters, pair_filters)]
    identifier = None if language is None else LANGUAGES.resolve({"name": "py3langid", **language})
    extractor = EXTRACTORS.resolve("resiliparse")
    return CleaningSteps(SourceSteps(extractor, identifier, *chosen), text_chars, tally), tally


def document(text, **fields):
    return Document(bytes(16), text, "s", **fields)


TEXT = st.text(st.sampled_from("aé \n\t\0\u0301\u00a0\r"), max_size=12)


@settings(max_examples=60)
@given(TEXT, st.none() | TEXT, st.integers(3, 12))
def test_a_text_is_normalized_or_rejected(text, target, limit):
    found, tally = steps(text_chars=limit)
    kept = found.clean(document(text, target_text=target), "en", "de")
    counts = tally.counts
    out = 0 if kept is None else len(kept.text) + len(kept.target_text or "")

    if kept is not None:
        tally.count_kept(kept)
        assert (
            kept.text,
            kept.language,
            kept.language_score,
        ) == (normalize(text), "en", 1.0)
        assert kept.target_text == (None if target is None else normalize(target))
        assert kept.target_language == (None if target is None else "de")

    assert counts["characters_out"] == counts["characters_in"] == out

    too_long = len(text) > limit or (target is not None and len(target) > limit)

    assert (kept is None) == (
        too_long or not normalize(text) or (target is not None and not normalize(target))
    )
    assert sum(counts["rejected"].values()) == (kept is None)


@pytest.mark.parametrize(
    ("text", "language", "reason", "detail"),
    [
        ("x" * 1001, None, "too_long", "1001 characters > 1000"),
        (" \0\n", None, "empty", ""),
        (ENGLISH * 3, {"keep": ["de"]}, "language", "en"),
        (
            ENGLISH * 3,
            {"keep": ["en"], "threshold": 1.0},
            "language_score",
            r"en 0\.\d{3} < 1.000 by threshold",
        ),
    ],
)
def test_a_rejection_says_at_which_step_and_why(text, language, reason, detail):
    found, tally = steps(language)
    rejected = found.clean(document(text), None)

    assert rejected is None

    (rejection,) = tally.rejections

    assert rejection.reason == reason
    assert re.fullmatch(detail, rejection.detail)
    assert reason in found.reasons


def test_filters_see_the_text_that_the_one_before_left():
    """C4's rules drop a line, then the next filter finds too few words.

    The edit is counted all the same.
    """
    text = f"Home\n{ENGLISH.strip()}"
    words = len(ENGLISH.replace(",", " ").replace(".", " ").split())
    lines = {"name": "c4_quality", "sentences": 1}

    for fewest in (words, words + 1):
        found, tally = steps(
            filters=[
                lines,
                {"name": "gopher_quality", "words": (fewest, 100)},
            ]
        )
        kept = found.clean(document(text), "en")

        assert (kept is not None) == (fewest == words)
        assert sum(tally.counts["edits"].values()) == len("Home\n")

        rejected = {} if kept is not None else {"gopher_quality": len(ENGLISH) - 1}

        assert tally.counts["cut"] == {"c4_quality": len("Home\n")} | rejected

        if kept is not None:
            assert (kept.text, kept.n_chars, kept.n_words) == (
                ENGLISH.strip(),
                len(ENGLISH) - 1,
                words,
            )
            assert kept.content_hash == xxhash.xxh3_128_digest(kept.text.encode())


def test_what_a_filter_notes_is_counted_and_the_document_stays():
    found, tally = steps(filters=[{"name": "gopher_quality", "words": (1, 100)}])
    assert found.clean(document("Kein Filter kennt diese Sprache."), "xx") is not None
    assert tally.counts["notes"] == {"stop_words_unavailable": 1}


def test_pairs_have_filters_of_their_own_and_both_sides_in_their_hash():
    long = [{"name": "gopher_quality", "words": (1000, 2000)}]
    pair = document("One side.", target_text="Eine Seite.")
    found, _ = steps({"keep": ["de"]}, filters=long)
    kept = found.clean(pair, None)

    assert kept.content_hash == xxhash.xxh3_128_digest(b"One side.\0Eine Seite.")
    assert (kept.language, kept.target_language) == ("und", "und")
    assert steps(pair_filters=long)[0].clean(pair, None) is None


@pytest.mark.parametrize("target", [None, "Eine Seite."])
def test_filters_of_addresses_reject_before_the_text_is_read(tmp_path, target):
    (tmp_path / "listed").write_text("example.org")
    listed = [{"name": "url", "domains": [str(tmp_path / "listed")]}]
    page = document("", url="http://example.org/a", target_text=target)

    for filters, pair_filters in ((listed, ()), ((), listed)):
        found, tally = steps(filters=filters, pair_filters=pair_filters)
        assert found.clean(page, None) is None
        judged = filters if target is None else pair_filters
        assert ([each.reason for each in tally.rejections] == ["url_domain"]) == bool(judged)


class Licensed(Filter):
    """Rejects documents by what is known of them, and notes what it was given."""

    VERSION = 1
    reasons = ("license", "old", "elsewhere")

    @config_class
    class Options:
        early: bool = False

    def __init__(self, options):
        pass

    def judge(self, document, statistics):
        if document.extra.get("license") != "cc0":
            return Verdict("license", document.extra.get("license", "none"))
        if (document.date or 0) < 1_000:
            return Verdict("old")
        if document.host != "example.org" or document.source != "crawl":
            return Verdict("elsewhere")
        return Verdict(
            columns={
                "seen": [
                    len(document.text),
                    document.language,
                    statistics.words,
                ]
            }
        )


class EarlyLicensed(Licensed):
    """The same, before the text of a page is extracted."""

    before_extraction = True


KNOWN = {"extra": {"license": "cc0"}, "date": 2_000, "host": "example.org"}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, ""),
        ({"extra": {}}, "license"),
        ({"extra": {"license": "gpl"}}, "license"),
        ({"date": 10}, "old"),
        ({"date": None}, "old"),
        ({"host": "example.com"}, "elsewhere"),
    ],
)
@pytest.mark.parametrize("kind", [Licensed, EarlyLicensed])
def test_a_filter_judges_what_is_known_of_a_document(kind, known, reason):
    found, tally = steps(filters=[{"name": f"{__name__}:{kind.__name__}"}])
    kept = found.clean(replace(document(ENGLISH), **{"source": "crawl"} | KNOWN | known), "en")

    assert [each.reason for each in tally.rejections] == [reason] * bool(reason)

    if kept is not None:
        seen = (
            [0, "und", 0]
            if kind is EarlyLicensed
            else [len(normalize(ENGLISH)), "en", kept.n_words]
        )
        assert kept.extra == {"license": "cc0", "seen": seen}


def test_the_page_of_a_document_that_a_filter_needs_no_text_for_is_never_read(monkeypatch):
    """Extraction would cost milliseconds, and might fail, for a page that is rejected by its
    license."""
    found, tally = steps(filters=[{"name": f"{__name__}:EarlyLicensed"}])
    monkeypatch.setattr(found, "_extraction", None)
    assert found.clean(document("<p>A page without a license."), None, is_markup=True) is None
    (rejection,) = tally.rejections
    assert (rejection.reason, rejection.sample_text or "") == ("license", "")
