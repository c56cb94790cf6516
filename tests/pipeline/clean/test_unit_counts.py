import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.clean.unit_counts import UnitCounts


def test_two_documents_with_one_uid_are_an_error():
    ledger = UnitCounts(0, 0.0)
    ledger.open("a", [], [])
    ledger.add_document(b"u" * 16, "default/a", 0)
    with pytest.raises(IntegrityError, match="default/a"):
        ledger.add_document(b"u" * 16, "default/a", 7)
