"""Deleted comments go, and entities become characters once."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.reddit import Reddit
from clozeline.pipeline.text.normal_form import normalize
from clozeline.tools.start.contracts.filters import judge_text

CASES = {"reddit_deleted": "[deleted]"}


def edit(text):
    return judge_text(Reddit(Reddit.Options()), text)


@pytest.mark.parametrize(
    "text",
    [
        "[deleted]",
        "[removed]",
        "[ Removed by Reddit ]",
        "[deleted by user]",
        " [removed]",
        "&#x200B;",
    ],
)
def test_deleted_ones_are_rejected(text):
    assert edit(normalize(text)).reason == "reddit_deleted" or not normalize(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("&gt; Is it?\n\nYes &amp; no.", "> Is it?\n\nYes & no."),
        ("&lt;div&gt; and &quot;x&quot; &#39;y&#39;", "<div> and \"x\" 'y'"),
        ("&amp;gt; is how to write it", "&gt; is how to write it"),
        ("one&nbsp;two &#x200B;three", "one\xa0two \u200bthree"),
    ],
)
def test_entities_are_characters(text, wanted):
    assert edit(text).text == wanted
    assert edit(text).removed == {"entities": len(text) - len(wanted)}


@pytest.mark.parametrize(
    "text",
    [
        "R&D and AT&T",
        "https://x.example/?a=1&copy=2&lt=3",
        "It was [deleted] by them.",
        "&nosuchentity; stays",
    ],
)
def test_other_texts_stay(text):
    assert edit(text) == KEEP


@given(st.text(st.sampled_from("ab&<>\"';#x \n"), max_size=40))
def test_what_was_escaped_comes_back(text):
    plain = normalize(text)
    verdict = edit(html.escape(plain))
    assert (html.escape(plain) if verdict.text is None else verdict.text) == plain
