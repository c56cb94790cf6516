from __future__ import annotations

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.dedup.exact import content_hashes, normalize_url
from clozeline.pipeline.dedup.rows import uid_bytes


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTPS://Example.org:443/A#top", "example.org/A"),
        ("http://example.org", "example.org/"),
        ("http://example.org:8080/a?b=c", "example.org:8080/a?b=c"),
        ("http://user@Example.org./x", "example.org/x"),
        ("http://[::1/x", "http://[::1/x"),
        ("http://h:port/x", "http://h:port/x"),
        ("http://BÜCHER.example/a", "xn--bcher-kva.example/a"),
        ("http://xn--bcher-kva.example./a", "xn--bcher-kva.example/a"),
        ("", ""),
        ("/a", "/a"),
        ("about:blank", "about:blank"),
    ],
)
def test_normal_form_of_urls(url, form):
    assert normalize_url(url) == form


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(max_size=6), st.none() | st.text(max_size=3)), max_size=12), st.integers(0, 3))
def test_equal_hashes_mean_equal_texts_of_any_slice(rows, first):
    columns = {name: pa.array([row[i] for row in rows], pa.utf8()) for i, name in enumerate(("text", "target_text"))}
    batch = pa.record_batch({**columns, "url": pa.nulls(len(rows), pa.utf8())}).slice(first)
    hashes, present = content_hashes(batch, "text")
    assert present.all()
    assert len(set(uid_bytes(hashes))) == len(set(rows[first:]))
    digests = [xxhash.xxh3_128_digest(text if other is None else f"{text}\0{other}") for text, other in rows[first:]]
    assert uid_bytes(hashes) == digests


def test_a_document_with_an_empty_key_has_none():
    """Texts without words, a side of a pair included, and empty URLs are no duplicates of each other."""
    texts = ["😀", "★ ★", "♪", "\u0301", "one word", "ONE, word!", "¡!", "7", "8"]
    others = [None, None, None, None, None, None, "one word", None, None]
    urls = ["", "", "http://a.example", None, " ", "http://a.example/", "", "", ""]
    columns = {"text": texts, "target_text": others, "url": urls}
    batch = pa.record_batch({name: pa.array(values, pa.utf8()) for name, values in columns.items()})
    hashes, present = content_hashes(batch, "match")
    assert present.tolist() == [False, False, False, False, True, True, False, True, True]
    assert hashes[4] == hashes[5]
    assert hashes[7] == hashes[8]
    hashes, present = content_hashes(batch, "url")
    assert present.tolist() == [url is not None and "a.example" in url for url in urls]
    assert hashes[2] == hashes[5]
    assert content_hashes(batch, "text")[1].all()
