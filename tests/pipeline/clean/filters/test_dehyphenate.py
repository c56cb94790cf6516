"""Words of printed lines come back, and compounds keep their hyphens."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.dehyphenate import Dehyphenate
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.wrapped_lines import unwrap
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.captures import SENTENCES


def joined(text):
    verdict = judge_text(Dehyphenate(Dehyphenate.Options()), text)
    return text if verdict.text is None else verdict.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("This is an exam-\nple of it.", "This is an example\nof it."),
        ("This is an exam-\n  ple.\nMore.", "This is an example.\nMore."),
        ("at the end of a page-\n\nful of text", "at the end of a pageful\nof text"),
        ("Ein Bei-\nspiel, das", "Ein Beispiel,\ndas"),
        ("ein gro\u00df-\nartiger Tag", "ein gro\u00dfartiger\nTag"),
        ("a well-\nknown man, and well-known he is", "a well-known\nman, and well-known he is"),
        ("he is well, and known; a well-\nknown man", "he is well, and known; a well-known\nman"),
        ("we go in and to it, into it, in-\nto", "we go in and to it, into it, into"),
        (
            "he half-smiled, his half crown, half-\ncentury",
            "he half-smiled, his half crown, half-century",
        ),
        (
            "child-like and god-like, a Madonna-\nlike face",
            "child-like and god-like, a Madonna-like\nface",
        ),
        ("CHAP-\nTER I", "CHAPTER\nI"),
        ("the Anglo-\nSaxon kings", "the Anglo-Saxon\nkings"),
        ("the doctor; a doct-\nor came", "the doctor; a doctor\ncame"),
        ("Som\u00ac\nmer und Haus\u2e17\nund Hof", "Sommer\nund Hausund\nHof"),
        ("pre-\nand post-war", "pre-\nand post-war"),
        ("- a list\n- of items\n-\nand", "- a list\n- of items\n-\nand"),
        ("call 555-\n1234 or\n--\nAda", "call 555-\n1234 or\n--\nAda"),
        ("aa-\nbb-\ncc", "aabbcc"),
        ("undecanal or n-\ntridecanal", "undecanal or n-tridecanal"),
        (
            "the price-\ndetermining factors; price-determining",
            "the price-determining\nfactors; price-determining",
        ),
        ("re\u2010\nturn", "return"),
    ],
)
def test_a_word_is_joined_where_it_was_cut(text, wanted):
    assert joined(text) == wanted


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Vor-\nund Nachteile"),
        ("fr", "avant-\net apr\xe8s-guerre"),
        ("nl", "in-\nen uitgang"),
    ],
)
def test_a_suspended_hyphen_stays(language, text):
    assert judge_text(Dehyphenate(Dehyphenate.Options()), text, language) == KEEP


WORDS = sorted(set(re.findall(r"[a-z]{6,}", SENTENCES.lower())))


@given(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.integers(2, 4)),
        min_size=1,
        max_size=30,
    )
)
def test_cut_words_of_a_text_come_back(cuts):
    """Words that the text has elsewhere: each cut at any letter, one a line."""
    text = (
        " ".join(WORDS) + " " + "".join(f"{word[:at]}-\n{word[at:]} " for word, at in cuts).strip()
    )
    whole = " ".join(WORDS) + " " + " ".join(word for word, _ in cuts)
    assert joined(text).split() == whole.split()


@given(st.integers(50, 80), st.sampled_from("-\u00ac\u2010\u00ad"))
def test_a_wrapped_text_is_the_text_again(width, mark):
    """Lines end inside of any word; letters come back, and all but a few hyphens."""
    words = SENTENCES.split()
    lines = [""]
    for word in words:
        cut = width - len(lines[-1]) - 2
        if cut >= len(word):
            lines[-1] += f" {word}"
        elif word.isalpha() and 2 <= cut <= len(word) - 2:
            lines[-1] += f" {word[:cut]}{mark}"
            lines.append(word[cut:])
        else:
            lines.append(word)
    text = normalize("\n".join(lines))
    whole = " ".join(words)

    for again in (joined(text).replace("\n", " "), unwrap(text)):
        assert again.replace("-", "").split() == whole.replace("-", "").split()
        assert abs(again.count("-") - whole.count("-")) <= 0.015 * len(words)


def test_removed_characters_are_counted():
    text = "an exam-\nple of two exam-\nples"
    verdict = judge_text(Dehyphenate(Dehyphenate.Options()), text)
    assert verdict.removed == {"hyphens": len(text) - len(verdict.text)}
    assert judge_text(Dehyphenate(Dehyphenate.Options()), SENTENCES.strip()) == KEEP
