from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.forgotten import Forgotten

UNITS = st.dictionaries(st.integers(0, 5), st.lists(st.binary(min_size=16, max_size=16), min_size=1), max_size=4)


@given(UNITS, UNITS)
def test_documents_add_up_in_any_order(first, second):
    both = Forgotten().with_documents(first).with_documents(second)
    assert both == Forgotten().with_documents(second).with_documents(first).with_documents(first)
    uids = {uid for units in (first, second) for each in units.values() for uid in each}
    assert all(both.holds(uid) for uid in uids)
    assert not both.holds(bytes(15) + b"x") or bytes(15) + b"x" in uids


def test_the_file_holds_no_uid_and_is_checked(tmp_path):
    uid = bytes(range(16))
    assert not Forgotten.load(tmp_path)
    listed = Forgotten().with_documents({3: [uid]})
    listed.save(tmp_path)
    assert Forgotten.load(tmp_path) == listed
    content = (tmp_path / "forgotten.json").read_text()
    assert uid.hex() not in content
    (tmp_path / "forgotten.json").write_text(content.replace('"3"', '"4"'))
    with pytest.raises(IntegrityError, match="not a list of forgotten documents"):
        Forgotten.load(tmp_path)
