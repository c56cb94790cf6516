"""Hosts in one form: what other libraries say, and names that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.text.hosts import ascii_host, ascii_url, extract_host, parent_domains


@pytest.mark.parametrize(
    ("host", "form"),
    [
        ("Example.ORG.", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BU\u0308CHER。example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("straße.de", "xn--strae-oqa.de"),
        ("☃.net", "xn--n3h.net"),
        ("ｅｘａｍｐｌｅ.org", "example.org"),
        ("a_b.-c-.example", "a_b.-c-.example"),
        ("::1", "::1"),
        ("192.0.2.1", "192.0.2.1"),
        ("...", ""),
        ("", ""),
    ],
)
def test_the_ascii_form_of_a_host(host, form):
    """As the URL standard of the WHATWG, by which browsers ask for a host."""
    assert ascii_host(host) == form
    assert ascii_host(form) == form


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://user:word@WWW.Bücher.Example.:8080/a?b#c", "www.xn--bcher-kva.example"),
        ("https://[2001:DB8::1]:443/", "2001:db8::1"),
        ("http://b%C3%BCcher.example/", "xn--bcher-kva.example"),
        ("http://[::1", None),
        ("http:///a", None),
        ("mailto:a@b.example", None),
        ("//cdn.example/x", "cdn.example"),
        ("", None),
        (None, None),
    ],
)
def test_the_host_of_a_url(url, host):
    assert extract_host(url) == host


@given(st.text(max_size=300) | st.text("aéß☃.@:[]/%\ud800\u200d\u0301xn-", max_size=300))
def test_any_text_has_a_host_or_none(text):
    assert isinstance(ascii_host(text), str)
    url = ascii_url(f"http://{text}/")
    assert ascii_url(url) == url
    host = extract_host(f"http://{text}/")
    assert host is None or host == ascii_host(host)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTP://u:p@Bücher.example.:80/Ä?Q#f", "HTTP://u:p@xn--bcher-kva.example:80/Ä?Q#f"),
        ("bücher.example/Ä", "xn--bcher-kva.example/Ä"),
        ("//Bücher.example", "//xn--bcher-kva.example"),
        ("http://[::1]:80/É", "http://[::1]:80/É"),
    ],
)
def test_a_url_changes_in_its_host_only(url, form):
    assert ascii_url(url) == form


def test_domains_above_a_host():
    assert parent_domains("a.b.org") == ["a.b.org", "b.org", "org"]
    assert parent_domains("") == []
    assert parent_domains("b" * 300 + ".org") == ["org"]

    above = parent_domains("a." * 100_000 + "org")

    assert above[-2:] == ["a.org", "org"]
    assert len(above) < 130
