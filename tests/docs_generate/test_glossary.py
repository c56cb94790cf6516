"""Students find each word of a lecture in the glossary, from its first use on a page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LABS = ROOT / "configs" / "labs"
WORDS = re.findall(r"^## (.*)$", (LABS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
"""from the longest: an attention mask is no mask"""
PLURALS = {"vocabulary": "vocabularies", "batch": "batches", "FLOPs": "FLOPs"}
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("objectives", "rows", "textbook")),
    ROOT / "docs" / "textbook-models.md",
    *sorted(LABS.glob("lab*.md")),
]
NOT_PROSE = re.compile(
    r"^---\n.*?^---$|^```.*?^```$|^#.*?$|^\|.*?$|^- [^\n]* → .*?$", re.MULTILINE | re.DOTALL
)
USE = re.compile(
    r"(?P<link>\[[^]]*\]\([^)]*\))|`[^`]*`|\b(?P<word>{})\b".format(
        "|".join(
            f"{word}|{PLURALS.get(word, f'{word}s')}"
            for word in sorted(WORDS, key=len, reverse=True)
        )
    ),
    re.IGNORECASE,
)


def unlinked_words(text):
    """Return the words of the glossary whose first use in a text is no link to them."""
    singular = {PLURALS.get(word, f"{word}s").lower(): word for word in WORDS}
    singular |= {word.lower(): word for word in WORDS}
    linked, missing = set(), []

    for use in USE.finditer(NOT_PROSE.sub("", text)):
        if use["link"]:
            anchor = use["link"].rpartition("glossary.md#")[2].rstrip(")")
            linked.add(anchor.replace("-", " "))
        elif use["word"]:
            word = singular[use["word"].lower()]
            if word.lower().replace("-", " ") not in linked:
                missing.append(word)
                linked.add(word.lower().replace("-", " "))
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_words_are_linked_at_their_first_use(page):
    assert unlinked_words(page.read_text(encoding="utf-8")) == []


def test_a_first_use_is_found_in_prose_alone():
    text = "# Masks\n\n`mask` [Tokens](glossary.md#token) and tokens. A mask, two masks.\n"

    assert unlinked_words(text) == ["mask"]


def test_words_have_one_or_two_sentences_each():
    glossary = (LABS / "glossary.md").read_text(encoding="utf-8")
    meanings = dict(re.findall(r"^## (.*)\n\n(.*)$", glossary, flags=re.MULTILINE))

    assert list(meanings) == sorted(WORDS, key=str.lower)
    assert 25 <= len(WORDS) <= 45
