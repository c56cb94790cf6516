import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.exact import hash_contents, normalize_url
from clozeline.pipeline.dedup.parts import uid_bytes
from tests.pipeline.dedup.dedup_documents import EXACT, document


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTPS://Example.org:443/A#top", "example.org/A"),
        ("http://example.org", "example.org/"),
        ("https://mail.example/#/inbox/1", "mail.example/#/inbox/1"),
        ("https://mail.example/app?a=1#/inbox/2", "mail.example/app?a=1#/inbox/2"),
        ("https://Mail.example#!Page=2", "mail.example/#!Page=2"),
        ("http://example.org/a#section/2", "example.org/a"),
        ("http://example.org/a#", "example.org/a"),
        ("http://example.org:8080/a?b=c", "example.org:8080/a?b=c"),
        ("http://user@Example.org./x", "example.org/x"),
        ("http://[::1/x", "http://[::1/x"),
        ("http://h:port/x", "http://h:port/x"),
        ("http://BÜCHER.example/a", "xn--bcher-kva.example/a"),
        ("", ""),
        ("/a", "/a"),
        ("about:blank", "about:blank"),
    ],
)
def test_normal_form_of_urls(url, form):
    assert normalize_url(url) == form


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text(max_size=6), st.none() | st.text(max_size=3)), max_size=12),
    st.integers(0, 3),
)
def test_equal_hashes_mean_equal_texts_of_any_slice(rows, first):
    columns = {
        name: pa.array([row[i] for row in rows], pa.utf8())
        for i, name in enumerate(("text", "target_text"))
    }
    batch = pa.record_batch({**columns, "url": pa.nulls(len(rows), pa.utf8())}).slice(first)
    hashes, present = hash_contents(batch, "text")

    assert present.all()
    assert len(set(uid_bytes(hashes))) == len(set(rows[first:]))

    digests = [
        xxhash.xxh3_128_digest((text if other is None else f"{text}\0{other}").encode())
        for text, other in rows[first:]
    ]

    assert uid_bytes(hashes) == digests


def test_a_document_with_an_empty_key_has_none():
    """Texts without words, a side of a pair included, and empty URLs are no duplicates of each
    other."""
    texts = ["😀", "★ ★", "♪", "\u0301", "one word", "ONE, word!", "¡!", "page 7", "page 8"]
    others = [None, None, None, None, None, None, "one word", None, None]
    urls = ["", "", "http://a.example", None, " ", "http://a.example/", "", "", ""]
    columns = {"text": texts, "target_text": others, "url": urls}
    batch = pa.record_batch({name: pa.array(values, pa.utf8()) for name, values in columns.items()})
    hashes, present = hash_contents(batch, "match")

    assert present.tolist() == [False, False, False, False, True, True, False, True, True]
    assert hashes[4] == hashes[5]
    assert hashes[7] != hashes[8], "numbers are compared as they are written"

    hashes, present = hash_contents(batch, "url")

    assert present.tolist() == [url is not None and "a.example" in url for url in urls]
    assert hashes[2] == hashes[5]
    assert hash_contents(batch, "text")[1].all()


def test_clusters_bear_the_smallest_uid_which_stays(run_dedup):
    copies = [document(n, "one and the same text") for n in range(5)]
    result = run_dedup([[copies[3], document(9, "another text")], copies[:3], copies[4:]], EXACT, 3)
    kept = min(copy.uid for copy in copies)
    clusters = result.clusters("exact")

    assert {row["cluster"] for row in clusters} == {kept}
    assert {row["uid"] for row in clusters} == {copy.uid for copy in copies}
    assert [row["uid"] for row in clusters if row["kept"]] == [kept]


@pytest.mark.parametrize(("key", "kept"), [("url", 1), ("text", 3), ("match", 2)])
def test_the_longest_text_of_equal_keys_stays(run_dedup, key, kept):
    texts = ["A  text", "A text with more, of 12", "a TEXT with more of 12"]
    urls = ["http://x.org/a", "https://X.org/a#top", "http://x.org:80/a"]
    rows = [document(n, texts[n], url=urls[n], date=None if n == 1 else n) for n in range(3)]
    found = run_dedup([rows], {"exact": {"key": key}, "near": None}).documents()

    assert len(found) == kept
    assert rows[1].uid in {row.uid for row in found}


def test_the_same_record_twice_is_an_error(run_dedup):
    with pytest.raises(IntegrityError, match="is twice below"):
        run_dedup([[document(1, "text")], [document(1, "text")]], EXACT)


def test_a_kept_document_is_unchanged_and_order_is_the_source_order(run_dedup):
    rows = [
        document(n, f"text {n % 7}", language="en", extra={"n": n}, url=f"http://h/{n}")
        for n in range(20)
    ]
    result = run_dedup([rows[:9], [], rows[9:]], EXACT)
    stays = {row.uid for row in result.documents()}

    assert result.documents() == [row for row in rows if row.uid in stays]
    assert len(stays) == 7


def test_documents_without_a_url_are_no_copies_of_each_other_and_counted(run_dedup):
    result = run_dedup(
        [[document(n, "text") for n in range(3)]], {"exact": {"key": "url"}, "near": None}
    )
    assert (result.counts["documents_out"], result.counts["without_key"]) == (3, 3)
