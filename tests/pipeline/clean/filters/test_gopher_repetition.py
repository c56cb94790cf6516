import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.gopher_repetition import GopherRepetition
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.clean.filters.documents import documents
from tests.pipeline.text.test_text_statistics import duplicate_slow, top_slow
from tests.pipeline.text.tokens import word_tokens


def shares(text, n_top, n_duplicate):
    """Every measure by plain loops."""
    found = {}

    for name, pieces in (
        ("para", re.split(r"\n{2,}", text.strip())),
        ("line", re.split(r"\n+", text.strip())),
    ):
        copies = [piece for place, piece in enumerate(pieces) if piece in pieces[:place]]
        found[f"dup_{name}_frac"] = len(copies) / len(pieces)
        found[f"dup_{name}_char_frac"] = sum(map(len, copies)) / max(1, len(text))

    tokens = word_tokens(text)
    found |= {f"top_{n}_gram": top_slow(tokens, n) / max(1, len(text)) for n in n_top}
    found |= {
        f"duplicated_{n}_n_grams": duplicate_slow(tokens, n) / max(1, len(text))
        for n in n_duplicate
    }
    return found


def test_a_measure_at_its_threshold_is_kept_and_one_beyond_it_is_not():
    names = {
        "paragraphs": "dup_para_frac",
        "paragraph_chars": "dup_para_char_frac",
        "lines": "dup_line_frac",
        "line_chars": "dup_line_char_frac",
    }

    seen = set()

    for text in [one for one in documents(60, seed=9) if len(one) < 2000]:
        found = shares(text, (2, 3, 4), range(5, 11))
        at = {name: found[reason] for name, reason in names.items()}
        at["top_ngrams"] = {n: found[f"top_{n}_gram"] for n in (2, 3, 4)}
        at["duplicate_ngrams"] = {n: found[f"duplicated_{n}_n_grams"] for n in range(5, 11)}

        assert (
            judge_text(GopherRepetition(GopherRepetition.Options(min_words=0, **at)), text) == KEEP
        )

        beyond = {
            reason: {name: math.nextafter(found[reason], 0)} for name, reason in names.items()
        }

        for name, key in (
            ("top_ngrams", "top_{}_gram"),
            ("duplicate_ngrams", "duplicated_{}_n_grams"),
        ):
            beyond |= {
                key.format(n): {name: {**at[name], n: math.nextafter(value, 0)}}
                for n, value in at[name].items()
            }

        for reason in (reason for reason in beyond if found[reason]):
            options = GopherRepetition.Options(min_words=0, **{**at, **beyond[reason]})
            assert judge_text(GopherRepetition(options), text).reason == reason
            seen.add(reason)

    assert seen == set(GopherRepetition.reasons)

    spam = judge_text(GopherRepetition(GopherRepetition.Options()), "spam " * 900)

    assert (spam.reason, spam.detail) == ("top_2_gram", "1.798 > 0.2")


SENTENCES = st.lists(
    st.text("abcdefghijklmnop", min_size=2, max_size=9), min_size=1, max_size=30, unique=True
)


@given(SENTENCES)
def test_a_text_in_which_no_word_occurs_twice_repeats_nothing(words):
    """Also the shortest one: an n-gram of four words may be a third of a sentence, without a
    repetition."""
    text = " ".join(words).capitalize() + "."
    step = GopherRepetition(GopherRepetition.Options())
    assert judge_text(step, text) == KEEP


@pytest.mark.parametrize("count", [7, 40])
def test_a_sentence_that_is_repeated_is_repetition(count):
    text = " ".join(["The ferry waits for nobody on this side."] * count)
    step = GopherRepetition(GopherRepetition.Options())
    assert judge_text(step, text).reason in {"top_2_gram", "top_3_gram", "top_4_gram"}


PAGE = " ".join(f"{word} {word[::-1]}." for word in dir(str)[33:70])


@pytest.mark.parametrize(
    "text",
    [
        "The ferry waits for nobody on this side. " * 6,
        *(f"{PAGE}\n{mark * 70}\nSigned: {mark * 300} Date: {mark * 30}" for mark in "=_*─…"),
        f"> {PAGE}\n>\n> {PAGE.swapcase()}\n>\n> {PAGE[::-1]}",
    ],
)
def test_short_texts_rulers_and_marks_alone_repeat_nothing(text):
    assert judge_text(GopherRepetition(GopherRepetition.Options()), text) == KEEP


@pytest.mark.parametrize("mark", ["> ", ">", "  >> > "])
def test_lines_that_a_mail_quotes_are_not_judged(mark):
    step = GopherRepetition(GopherRepetition.Options())
    sentence = "The captain told everybody at the counter how the lamp had been extinguished."
    answer = " ".join(f"word{number}" for number in range(60))
    quoted = f"{mark}{sentence}\n{mark}\n" * 9

    assert judge_text(step, sentence * 9).reason
    assert judge_text(step, f"{quoted}\n{answer}\n{quoted}") == KEEP
    assert judge_text(step, f"{quoted}{(sentence + ' ') * 9}").reason
