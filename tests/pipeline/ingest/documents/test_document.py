"""The identity of documents, and their form in files."""

from __future__ import annotations

import json
from hashlib import blake2b

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents.document import DOCUMENT_SCHEMA, Document, document_uid

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
PLACES = st.tuples(NAMES, NAMES, NAMES, st.integers(0, 2**63))


def test_a_uid_is_the_hash_of_where_the_record_begins() -> None:
    """Written out by hand: it must never change, because shards and held-out sets follow from it."""
    head = b"clozeline-doc\0wiki\0crawl/a.warc.gz\0warc-gz\0"
    place = (1000).to_bytes(8, "little")
    assert document_uid("wiki", "crawl/a.warc.gz", "warc-gz", 1000) == blake2b(head + place, digest_size=16).digest()
    assert document_uid("wiki", "crawl/a.warc.gz", "warc-gz", 1000).hex() == "a1f1a26165d78c1dcda0740e4a4e9cc1"


@given(PLACES, PLACES)
def test_different_places_have_different_uids(first: tuple, second: tuple) -> None:
    assert (document_uid(*first) == document_uid(*second)) == (first == second)


@settings(max_examples=50)
@given(
    st.text(st.characters(codec="utf-8"), max_size=9),
    st.none() | st.integers(0, 2**31),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), st.integers() | st.none(), max_size=3),
)
def test_a_row_fits_the_schema_and_holds_everything(text: str, date: int | None, extra: dict[str, int | None]) -> None:
    document = Document(bytes(16), text, "a", date=date, extra=extra, n_chars=len(text))
    row = document.as_row()
    assert list(row) == DOCUMENT_SCHEMA.names
    table = pa.Table.from_pylist([row], schema=DOCUMENT_SCHEMA)
    (back,) = table.to_pylist()
    assert (back["uid"], back["text"], back["n_chars"]) == (bytes(16), text, len(text))
    assert json.loads(back["extra"]) == extra
    assert (back["date"] is None) == (date is None)
    assert back["extra"] == Document(bytes(16), "", "b", extra=dict(reversed(extra.items()))).as_row()["extra"]


def test_a_changed_copy_leaves_the_first_as_it_is() -> None:
    first = Document(bytes(16), "a", "s", flags=1)
    second = first.replace(text="b")
    assert (first.text, second.text, second.flags) == ("a", "b", 1)
