"""Compiled words: the tokens of the patterns in Python, for every script, and classes of all code points."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clozeline.native.library import is_available, missing_note, numpy_only
from clozeline.native.words import SplitText, WordRules, keep_letters, split_words
from clozeline.pipeline.text import word_tokens as rules
from clozeline.pipeline.text.word_tokens import word_rules, word_tokens

needs_module = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
WORDS = """
    n't n’T 've ’S 'll 'd cannot CANNOT ſ K ı İ http:// ftp+x:// www. example.org .com :8080 :1 /a?b # @
    km/h m² mm km kg µg GB % K 5 10 1,000 3.14 - -- --- ---- — —— – ~ .. ... … . , ; ! ? : :) 8-D (: ]=
    )-: US$ C$ A$ $ € ₺ + * ^ = < > / _ " “ ” « » 。 ， ！ ； · ؟ ، । § © Ⓐ ★ ☃ 👍 🏽 🇩🇪 漢字 ひらがな 한국어 ไทย ລາວ
    ភាសា မြန်မာ हिन्दी தமிழ் עברית العربية Ελλάδα Россия ქართული ß Å À ١٢ ² Ⅷ ½ A Z aB Я я Ω AB. x y U S
"""
PARTS = [
    *WORDS.split(), *rules._ABBREVIATIONS, *rules._BEFORE_NOT.split("|"), *rules._BEFORE_APOSTROPHE.split("|"),
    "e\u0301", "\u200d", "\ufe0f", "\x00", "\x1b", "\ud800", "\udfff", "\xad", "x" * 257, "é,1" * 100,
    *" \n\x85\u3000\xa0\x1c",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=40).map(" ".join),
    st.text("aAsSnNtTkK'’.,-—–:/()@105 ", max_size=24),
    st.text(st.characters(exclude_categories=()), max_size=60),
)


def native_tokens(text: str) -> list[str]:
    split = split_words(text, word_rules)
    assert split is not None
    return [text[start : start + size] for start, size in zip(split.starts.tolist(), split.lengths, strict=True)]


@needs_module
@settings(max_examples=400)
@given(TEXTS)
@example("(5%) $5+ 5km/h. 10mm² 3µg 5'S \u2019s U.S. e.g.. (AB.) ab.C “a”.“b” 1--2 a--b a----b a—— b")
@example(":x) :xD 8aD +5 +a x.co:123456/y " + "x" * 257 + ",y " + "x" * 65 + ".com/a " + "s" * 21 + "://a.b.cd/e")
@example("x" * 254 + "-5 " + "x" * 255 + "-5")
@example("a.b@http://x.yz http://a@b.co:80/x http://x.co:123456 a-.com _a.com a_b.com www.x.co,")
@example("x" * 65 + ".com " + "x" * 64 + ".com x." + "y" * 64 + " " + "s" * 21 + "://a.b.cd")
@example("when't don't cann't Sha’N’T We'd've it's've whoſ'll ſhe's İt's you'm I'd'VE 'd'd co'd")
def test_tokens_are_those_of_the_patterns(text: str) -> None:
    assert native_tokens(text) == word_tokens(text)


@needs_module
@given(TEXTS)
def test_letters_are_those_of_the_pattern(text: str) -> None:
    assert keep_letters(text, word_rules) == "".join(re.findall(r"[^\W\d_]", text))


@needs_module
def test_every_code_point_splits_as_the_patterns_do() -> None:
    """Next to letters, digits and itself; of letters without case and of unassigned ones, a sample."""
    uniform = ("Lo", "Cn", "Co")
    known = (*range(0x20000), *range(0xE0000, 0xE0200), 0x2FFFF, 0x10FFFF)
    codes = [code for code in known if code % 61 == 0 or unicodedata.category(chr(code)) not in uniform]
    text = " ".join(f"{chr(code)}a{chr(code)}A{chr(code)}5{chr(code)} n{chr(code)}t can{chr(code)}ot" for code in codes)
    assert native_tokens(text) == word_tokens(text)


@needs_module
def test_texts_may_be_empty_and_without_the_module_there_is_none() -> None:
    assert native_tokens("") == []
    assert split_words(" \n", word_rules).count_listed(frozenset({"a"})) == 0
    assert split_words("the cat the", word_rules).count_listed(frozenset({"the", "a"})) == 1
    assert len(SplitText("", word_rules()).number_tokens()) == 0
    with numpy_only():
        assert split_words("a", word_rules) is None
        assert keep_letters("a", word_rules) is None


@needs_module
def test_listed_words_of_seven_characters_fit_and_longer_ones_are_an_error() -> None:
    assert WordRules((), {"Messrs.": 1}).rows.tolist() == [[7, 1, *map(ord, "Messrs.")]]
    with pytest.raises(ValueError, match="could not broadcast"):
        WordRules((), {"eight...": 1})
