import random
import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clozeline.errors import StorageError
from clozeline.pipeline.text import word_tokens as module
from clozeline.pipeline.text.normal_form import (
    count_characters_without_blanks,
    count_words,
    normalize,
)
from clozeline.pipeline.text.text_statistics import (
    TextStatistics,
    read_stop_words,
)
from tests.pipeline.text.tokens import word_tokens
from tests.refusals import refused

REPETITIVE = st.lists(
    st.sampled_from(["a", "b", "the", "cat...", ",", "x_y", "it's", "12"]), max_size=120
).map(" ".join)

WORDS = """
    n't n’T 've ’S 'll 'd cannot CANNOT ſ K ı İ http:// ftp+x:// www. example.org .com :8080 :1 /a?b # @
    km/h m² mm km kg µg GB % K 5 10 1,000 3.14 - -- --- ---- — —— – ~ .. ... … . , ; ! ? : :) 8-D (: ]=
    )-: US$ C$ A$ $ € ₺ + * ^ = < > / _ " “ ” « » 。 ， ！ ； · ؟ ، । § © Ⓐ ★ ☃ 👍 🏽 🇩🇪 漢字 ひらがな 한국어 ไทย ລາວ
    ភាសា မြန်မာ हिन्दी தமிழ் עברית العربية Ελλάδα Россия ქართული ß Å À ١٢ ² Ⅷ ½ A Z aB Я я Ω AB. x y U S
"""
PARTS = [
    *WORDS.split(),
    *module._ABBREVIATIONS,
    *module._BEFORE_NOT.split("|"),
    *module._BEFORE_APOSTROPHE.split("|"),
    "e\u0301",
    "\u200d",
    "\ufe0f",
    "\x00",
    "\x1b",
    "\ud800",
    "\udfff",
    "\xad",
    "x" * 257,
    "é,1" * 100,
    *" \n\x85\u3000\xa0\x1c",
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=40).map(" ".join),
    st.text("aAsSnNtTkK'’.,-—–:/()@105 ", max_size=24),
    st.text(st.characters(exclude_categories=()), max_size=60),
)
LISTED = frozenset({"the", "a", "it", "n't", "漢字", "", "missing", "x" * 300})
MEASURES = ("token_count", "words", "mean_word_length", "tokens_with_letter")


def top_slow(tokens, n):
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    if not grams:
        return 0
    gram, count = Counter(grams).most_common(1)[0]
    return len(" ".join(gram)) * count if count > 1 else 0


def duplicate_slow(tokens, n):
    seen = set()
    chars = 0
    at = 0
    while at <= len(tokens) - n:
        gram = tuple(tokens[at : at + n])
        if gram in seen:
            chars += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1

    return chars


@settings(max_examples=150)
@given(st.one_of(REPETITIVE, st.text(max_size=200)))
@example(" ".join(random.Random(4).choices([f"w{i}" for i in range(500)], k=3000)))
@example("one two three four five six seven eight nine ten eleven. " * 270)
@example("spam " * 3000)
@example("")
def test_ngrams_agree_with_plain_loops(text):
    text = normalize(text)
    tokens = word_tokens(text)
    statistics = TextStatistics(text)
    for n in range(2, 11):
        expected = (top_slow(tokens, n), duplicate_slow(tokens, n))
        assert (statistics.top_ngram_chars(n), statistics.duplicate_ngram_chars(n)) == expected


@given(TEXTS)
def test_counts_are_those_of_loops(text):
    tokens = word_tokens(text)
    words = [token for token in tokens if any(map(str.isalnum, token))]
    with_letter = sum(any(c.isalnum() and not c.isdecimal() for c in token) for token in tokens)
    counted = sum(
        max(1, count_characters_without_blanks(word) // 3, count_words(word)) for word in words
    )
    korean = sum(
        "HANGUL SYLLABLE" in unicodedata.name(character, "") for word in words for character in word
    )
    mean = (sum(map(len, words)) + korean) / max(1, len(words))
    expected = [
        len(tokens),
        counted,
        mean,
        with_letter,
        len(LISTED.intersection(token.lower() for token in tokens)),
    ]
    found = TextStatistics(text)

    assert [
        *(getattr(found, name) for name in MEASURES),
        found.count_stop_words(LISTED, "en"),
    ] == expected


# Lists of stop words
# --------------------------------------------------------------------------------------------------


def test_lists_are_read(tmp_path):
    lists = {"de": "der\nund", "th": "ที่\nและ"}
    for language, words in lists.items():
        (tmp_path / f"{language}.txt").write_text(words)
    assert read_stop_words(tmp_path) == lists


def test_folders_without_lists_and_damaged_lists_are_refused(tmp_path):
    with refused(r"expected files such as en.txt .* got no file"):
        read_stop_words(tmp_path)
    (tmp_path / "en.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="utf-8"):
        read_stop_words(tmp_path)


def test_words_count_once_and_strings_anywhere():
    assert TextStatistics("the cat the dog").count_stop_words(frozenset({"the", "a"}), "en") == 1
    assert TextStatistics("theatre").count_stop_words(frozenset({"the"}), "en") == 0
    assert TextStatistics("我的书是你的").count_stop_words(frozenset({"的", "是", "了"}), "zh") == 2
