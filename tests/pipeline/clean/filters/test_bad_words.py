import random

import numpy as np
import pytest

from clozeline.pipeline.clean.filters import HashedTerms, read_terms
from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text.normal_form import match_words
from clozeline.tools.start.contracts.filters import judge_text
from tests.refusals import refused

CASES = {"bad_words": "A darn of a text."}
LISTS = {
    "en": "# comment\ndarn\nbad egg\nbad\n2 eggs a day\negg a day\n",
    "ja.txt": "馬鹿\n",
    "de": "blöd\n",
}


def options_in(folder):
    (folder / "lists").mkdir(exist_ok=True)
    for name, text in LISTS.items():
        (folder / "lists" / name).write_text(text)
    return {"lists": str(folder / "lists")}


def judge(folder, text, language="en", **changes):
    chosen = FILTERS.resolve({"name": "bad_words", **options_in(folder), **changes})
    return judge_text(chosen.build(), text, language)


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("Damn it, DARN it.", "en", 1 / 4),
        ("darned undarn", "en", 0),
        ("A bad egg, a bad hen.", "en", 3 / 6),
        ("2 eggs a day", "en", 1),
        ("12 eggs a day", "en", 0),
        ("die BLOD Sache", "de", 1 / 3),
        ("die Blöd Sache", "de", 1 / 3),
        ("馬と鹿", "ja", 0),
        ("この馬鹿", "ja", 2 / 4),
        ("darn darn", "fr", 0),
    ],
)
def test_the_share_of_listed_words(tmp_path, text, language, share):
    verdict = judge(tmp_path, text, language)

    assert verdict.reason == ("bad_words" if share else "")
    assert verdict.note == ("bad_words_unavailable" if language == "fr" else "")

    if share:
        assert verdict.detail == f"{share:.3f} > 0.0"
        assert judge(tmp_path, text, language, share=share).reason == ""
        assert judge(tmp_path, text, language, share=share - 0.01).reason == "bad_words"


def test_terms_match_as_in_a_text_searched_word_by_word(tmp_path):
    draw = random.Random(5)
    terms = [match_words(term) for term in LISTS["en"].splitlines()[1:]]

    for _ in range(200):
        words = [draw.choice(["bad", "egg", "7", "eggs", "a", "day", "darn"]) for _ in range(12)]
        folded = match_words(" ".join(words))
        covered = 0
        position = 0
        while position < len(folded):
            lengths = [
                len(term) for term in terms if folded[position : position + len(term)] == term
            ]
            covered += max(lengths, default=0)
            position += max(lengths, default=1)

        detail = f"{covered / 12:.3f} > 0.0" if covered else ""

        assert judge(tmp_path, " ".join(words)).detail == detail


def test_a_missing_folder_is_refused(tmp_path):
    chosen = FILTERS.resolve({"name": "bad_words", "lists": str(tmp_path / "none")})
    with refused("none: expected a folder with one file per language"):
        chosen.build()


def test_empty_lines_and_comments_are_no_terms(tmp_path):
    (tmp_path / "a").write_text("\ufeff# words\n\n  one \ntwo words\n#three\n")
    assert list(read_terms(tmp_path / "a")) == ["one", "two words"]
    with refused("none: cannot be read as a UTF-8 list"):
        list(read_terms(tmp_path / "none"))


def test_hashed_terms_are_a_set(tmp_path):
    listed = [f"host{number}.example" for number in range(0, 300, 3)]
    (tmp_path / "a").write_text("\n".join(listed[:50]))
    (tmp_path / "b").write_text("\n".join(listed[50:]))
    terms = HashedTerms([tmp_path / "a", tmp_path / "b"])
    for number in range(300):
        assert terms.contains_any(["x", f"host{number}.example"]) == (number % 3 == 0)

    assert not terms.contains_any([])
    assert [part.dtype for part in terms._hashes] == [np.uint64] * 2

    (tmp_path / "a").write_text("another.example\n")

    assert HashedTerms([tmp_path / "a"]).contains_any(["another.example"]), (
        "a changed file is read again"
    )
