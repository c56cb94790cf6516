import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document


def test_two_documents_with_one_uid_are_an_error():
    ledger = UnitCounts(0, 0.0)
    ledger.open("a", [], [])
    ledger.add_document(b"u" * 16, "default/a", 0)
    with pytest.raises(IntegrityError, match="default/a"):
        ledger.add_document(b"u" * 16, "default/a", 7)


def test_characters_of_both_sides_are_counted():
    tally = UnitCounts(0, 1.0)
    tally.open("a", [], ["short"])
    pair = Document(bytes(16), "abc", "s", target_text="de", language="en")
    assert pair.characters == 5
    tally.keep(pair)
    tally.reject(pair.replace(text="x"), "short", "1 < 2")
    assert tally.counts["characters_out"] == 5
    assert (tally.counts["rejected"], tally.counts["languages"]) == ({"short": 1}, {"en": 1})
    (rejection,) = tally.rejections
    assert (rejection.stage, rejection.reason, rejection.detail, rejection.sample_text) == (
        "clean",
        "short",
        "1 < 2",
        "x",
    )
