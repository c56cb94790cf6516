import pytest

from clozeline.pipeline.clean.extractors import _class_hints
from clozeline.pipeline.clean.extractors._class_hints import HINTS, find_hints


def hints(names: str) -> set[str]:
    bits = find_hints(names)
    return {name for index, name in enumerate(HINTS) if bits >> index & 1}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", set()),
        ("xyz", set()),
        ("comments-list", {"comment", "list"}),
        ("commentList", {"comment", "list"}),
        ("COMMENT", {"comment"}),
        ("sidebarleft", {"side"}),
        ("articleBody", {"strong_body", "weak_body"}),
        ("entry-content", {"strong_body", "weak_body"}),
        ("site-footer", {"foot"}),
        ("footnotes", {"box"}),
        ("related_posts promo", {"related"}),
        ("read-more btn", {"related"}),
        ("SHAREButtons", {"share"}),
    ],
)
def test_words_of_class_names(names: str, expected: set[str]) -> None:
    assert expected <= hints(names)
    assert len(hints(names) - expected) <= 1


def test_a_footnote_is_no_footer() -> None:
    assert "foot" not in hints("footnote")


def test_full_caches_start_anew_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"nav-{number} item{number}" for number in range(30)]
    before = [find_hints(name) for name in names]
    monkeypatch.setattr(_class_hints, "_strings_seen", {})
    monkeypatch.setattr(_class_hints, "_words_seen", {})
    monkeypatch.setattr(_class_hints, "_CACHED", 4)
    assert [find_hints(name) for name in names] == before
    assert len(_class_hints._strings_seen) <= 4
    assert len(_class_hints._words_seen) <= 4


def test_very_long_names_are_cut() -> None:
    assert find_hints("x" * 1000 + " nav") == 0
