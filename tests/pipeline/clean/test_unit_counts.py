from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.clean.unit_counts import UnitCounts, count_characters
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.readers import Counted


def test_two_documents_with_one_uid_are_an_error():
    ledger = UnitCounts(0, 0.0)
    ledger.open("a", [], [])
    ledger.add_document(b"u" * 16, "default/a", 0)
    with pytest.raises(IntegrityError, match="default/a"):
        ledger.add_document(b"u" * 16, "default/a", 7)


ITEMS = st.lists(
    st.builds(
        Counted, st.sampled_from(["ignored", "malformed", "note"]), st.sampled_from(["a", "b"]), st.integers(0, 9)
    )
    | st.integers(0, 20),
    max_size=12,
)


def counts_of(items):
    """Count items, numbers being documents that take this number of bytes."""
    tally = UnitCounts(0, 0.0)
    tally.open("a", ["a", "b"], [])
    for place, item in enumerate(items):
        if isinstance(item, Counted):
            tally.count(item)
        else:
            tally.add_document(place.to_bytes(16, "big"), "default/a", place, item)
    return tally


@settings(max_examples=60)
@given(ITEMS, st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_the_account_of_a_range_balances_to_the_byte(items, separators, undecoded, beside):
    tally = counts_of(items)
    given_items = [item for item in items if not (isinstance(item, Counted) and item.group == "note")]
    taken = sum(item.bytes if isinstance(item, Counted) else item for item in items)
    content = taken + separators
    right = Account(100, {"cut": undecoded}, 3, beside, content, separators, len(given_items))
    owned = 100 + undecoded - 3 - beside
    for name, change in (("decoded", 1), ("read_twice", 1), ("content", -1), ("separators", 1), ("records", 1)):
        with pytest.raises(IntegrityError, match=r"clean: default/a: counts do not add up"):
            counts_of(items).close("default/a", owned, replace(right, **{name: getattr(right, name) + change}))
    tally.close("default/a", owned, right)
    counts = tally.counts
    assert counts["records_in"] == counts["records_given"] == counts["records_found"] == len(given_items)
    assert counts["documents_in"] == sum(not isinstance(item, Counted) for item in items)
    assert counts["content_bytes"] == taken == counts.get("content_kept", 0) + sum(counts["content_skipped"].values())
    assert counts["bytes_owned"] + counts["bytes_read_twice"] == counts["bytes_decoded"] + undecoded
    assert ("default/a" in counts["without_records"]) == (not given_items)
    assert sum(counts["notes"].values()) == len(items) - len(given_items)
    tally.close("default/b", 0, Account())  # the next range begins at nothing


def test_characters_of_both_sides_are_kept_or_removed():
    tally = UnitCounts(0, 1.0)
    tally.open("a", [], ["short"])
    pair = Document(bytes(16), "abc", "s", target_text="de", language="en")
    assert count_characters(pair) == 5
    tally.keep(pair)
    tally.reject(pair.replace(text="x"), "length", "short", "1 < 2")
    tally.count_removal("normalise", -2)
    assert tally.counts["characters_out"] == 5
    assert tally.counts["characters_removed"] == {"length": 3, "normalise": -2}
    assert (tally.counts["rejected"], tally.counts["languages"]) == ({"short": 1}, {"en": 1})
    (rejection,) = tally.rejections
    assert (rejection.stage, rejection.reason, rejection.detail, rejection.sample_text) == (
        "clean",
        "short",
        "1 < 2",
        "x",
    )
