import pytest

from clozeline.pipeline.registries import FILTERS
from clozeline.tools.start.contracts.filters import judge_text
from tests.refusals import refused

CASES = {
    "url_host": f"http://{'a.' * 127}example/",
    "url_domain": "https://www.shop.example.org/a",
    "url_listed": "http://fine.example/One/",
    "url_banned_word": "http://fine.example/x_FORBIDDEN.html",
    "url_soft_words": "http://fine.example/free-gifts",
    "url_banned_subword": "http://fine.example/un-wan%74ed/",
}
LISTS = {
    "domains": "# bad "
    "ones\nexample.org\n\nhost.other.example\nadult\nbücher.example\nXN--80A1ACNY.xn--p1ai.\n",
    "urls": "https://fine.example/one\nmüller.example/a\n",
    "banned_words": "Forbidden\n",
    "soft_words": "free\ngifts\nwin\n",
    "banned_subwords": "unwanted\n",
}


def options_in(folder):
    for name, text in LISTS.items():
        (folder / f"{name}.txt").write_text(text)
    return {name: [str(folder / f"{name}.txt")] for name in LISTS}


def judge(folder, url, **changes):
    chosen = FILTERS.resolve({"name": "url", **options_in(folder), **changes})
    return judge_text(chosen.build(), "", url=url)


@pytest.mark.parametrize(
    ("url", "reason", "detail"),
    [
        ("http://example.org", "url_domain", "example.org"),
        ("HTTPS://User@A.B.Example.ORG.:8080/x", "url_domain", "a.b.example.org"),
        ("http://notexample.org/", "", ""),
        ("http://example.org.evil.example/", "", ""),
        ("http://fine.adult/", "url_domain", "fine.adult"),
        ("http://host.other.example/", "url_domain", "host.other.example"),
        ("fine.example/one", "url_listed", "fine.example/one"),
        ("http://fine.example/one/more", "", ""),
        ("http://fine.example/forbiddens", "", ""),
        ("http://fine.example/free/free", "", ""),
        ("http://free.example/?win=1", "url_soft_words", "2 soft words >= 2: free, win"),
        ("http://[::1/", "", ""),
        ("http://www.bücher.example/", "url_domain", "www.xn--bcher-kva.example"),
        ("http://почта.рф/", "url_domain", "xn--80a1acny.xn--p1ai"),
        ("http://xn--mller-kva.example/A/", "url_listed", "http://xn--mller-kva.example/A/"),
        (f"http://{'a.' * 121}example.org/", "url_domain", "example.org"),  # 253 characters
        (f"http://{'a.' * 500_000}example.org/", "url_host", "1000011 characters > 253"),
        (f"http://{'é' * 250}.example/", "url_host", "> 253"),
        (f"http://{'.' * 100_000}", "", ""),
        (f"{'x' * 100_000}://example.org", "url_domain", "example.org"),
        (None, "", ""),
    ],
)
def test_a_verdict_by_url(tmp_path, url, reason, detail):
    verdict = judge(tmp_path, url)

    assert verdict.reason == reason
    assert verdict.detail.endswith(detail)

    if reason == "url_soft_words":
        assert judge(tmp_path, url, soft_word_threshold=3).reason == ""
        assert judge(tmp_path, f"{url}&gifts", soft_word_threshold=3).reason == reason


def test_a_filter_without_a_list_and_a_damaged_list_are_refused(tmp_path):
    with refused("expected at least one list, got none"):
        FILTERS.resolve("url")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    with refused("latin: cannot be read as a UTF-8 list"):
        judge(tmp_path, "http://a.example", domains=[str(tmp_path / "latin")])
