"""Keys of exact duplicates, and which of equal documents stays."""

import pyarrow as pa
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.exact import hash_contents, normalize_url
from tests.pipeline.dedup.dedup_documents import EXACT, document


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTPS://Example.org:443/A#top", "example.org/A"),
        ("http://example.org", "example.org/"),
        ("https://mail.example/app?a=1#/inbox/2", "mail.example/app?a=1#/inbox/2"),
        ("https://Mail.example#!Page=2", "mail.example/#!Page=2"),
        ("http://example.org/a#section/2", "example.org/a"),
        ("http://example.org:8080/a?b=c", "example.org:8080/a?b=c"),
        ("http://user@Example.org./x", "example.org/x"),
        ("http://[::1/x", "http://[::1/x"),
        ("http://h:port/x", "http://h:port/x"),
        ("http://BÜCHER.example/a", "xn--bcher-kva.example/a"),
        (" about:blank", "about:blank"),
    ],
)
def test_normal_form_of_urls(url, form):
    assert normalize_url(url) == form


def batch_of(**columns):
    return pa.record_batch({name: pa.array(each, pa.utf8()) for name, each in columns.items()})


def test_a_document_with_an_empty_key_has_none(run_dedup):
    """Texts without words, a side of a pair included, and empty URLs are no duplicates of each
    other."""
    texts = ["😀", "★ ★", "\u0301", "one word", "ONE, word!", "¡!", "page", "page"]
    others = [None, None, None, None, None, "one word", "no. 7", "no. 8"]
    urls = ["", "http://a.example", None, " ", "http://a.example/", "", "", ""]
    batch = batch_of(text=texts, target_text=others, url=urls)
    hashes, present = hash_contents(batch, "match")

    assert present.tolist() == [False, False, False, True, True, False, True, True]
    assert hashes[3] == hashes[4]
    assert hashes[6] != hashes[7], "both sides are compared, and numbers as they are written"

    hashes, present = hash_contents(batch, "url")

    assert present.tolist() == [url is not None and "a.example" in url for url in urls]
    assert hashes[1] == hashes[4]

    rows = [document(n, "text") for n in range(3)]
    counts = run_dedup([rows], {"exact": {"key": "url"}, "near": None}).counts

    assert (counts["documents_out"], counts["without_key"]) == (3, 3)


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
