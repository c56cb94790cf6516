"""Marks of sentences: the table against another library's, and lines and sentences in many
scripts."""

import re
import sys

import pytest
import regex

from clozeline.pipeline.text.normal_form import count_words, normalize
from clozeline.pipeline.text.sentence_marks import (
    SENTENCE_TERMINAL,
    ends_sentence,
)
from clozeline.pipeline.text.sentences.regex import Regex


def test_the_table_is_unicodes_property():
    ours = re.compile(f"[{SENTENCE_TERMINAL}]")
    characters = [chr(point) for point in range(sys.maxunicode + 1)]
    theirs = regex.compile(r"\p{Sentence_Terminal}")

    assert [one for one in characters if ours.match(one)] == [
        one for one in characters if theirs.match(one)
    ]


@pytest.mark.parametrize(
    ("line", "language", "ends"),
    [
        ("It is late.", "en", True),
        ("Is it “late?”", "en", True),
        ("It is late", "en", False),
        ("यह पहला वाक्य है।", "hi", True),
        ("यह पहला वाक्य", "hi", False),
        ("هل هذا صحيح؟", "ar", True),
        ("یہ ایک جملہ ہے۔", "ur", True),
        ("ይህ ሙከራ ነው።", "am", True),
        ("ይህ ሙከራ ነው፡፡", "ti", True),
        ("ይህ፡ሙከራ፡", "am", False),
        ("Սա թեստ է։", "hy", True),
        ("စာဖတ်သည်။", "my", True),
        ("စာဖတ်သည်၊", "my", False),
        ("នេះជាប្រយោគ។", "km", True),
        ("བཀྲ་ཤིས་བདེ་ལེགས།", "bo", True),
        ("ᠪᠢᠴᠢᠭ᠃", "mn", True),
        ("他说：“来了。”", "zh", True),
        ("「来た。」", "ja", True),
        ("בראשית ברא אלהים׃", "he", True),
        ("来た", "ja", False),
        ("นี่คือประโยค", "th", True),
        ("Πώς είσαι;", "el", True),
        ("Πώς είσαι;", "en", False),
    ],
)
def test_a_line_ends_in_a_mark_of_its_language(line, language, ends):
    assert ends_sentence(normalize(line), language) == ends


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("hy", ["Ինչպե՞ս ես։ ", "Սա թեստ է։ ", "123"]),
        ("el", ["Πώς είσαι; ", "Είμαι καλά."]),
        ("hi", ["यह पहला वाक्य है।", "यह दूसरा है॥", "तीसरा"]),
        ("ur", ["یہ ایک جملہ ہے۔", "یہ دوسرا ہے۔"]),
        ("am", ["ይህ ሙከራ ነው።", "ቁጥር ፩፪፫።"]),
        ("ti", ["ይህ ሙከራ ነው፡፡ ", "ቁጥር ፩፪፫፡፡"]),
        ("my", ["စာဖတ်သည်။", "ရေး၊ သည်။"]),
        ("km", ["នេះជាប្រយោគ។", "នេះមួយទៀត។"]),
        ("bo", ["བཀྲ་ཤིས་བདེ་ལེགས། ", "ང་ཡིན།"]),
        ("mn", ["ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ᠃ ", "ᠬᠡᠯᠡ᠃"]),
        ("he", ["בראשית ברא אלהים׃ ", "והארץ היתה תהו׃", "ויאמר"]),
        ("ja", ["第一文｡", "第二文。」", "三"]),
        ("ar", ["كيف حالك؟ ", "هذا اختبار."]),
        ("en", ["Version 3.5 is out! ", "See example.org."]),
    ],
)
def test_sentences_end_with_the_marks_of_their_script(language, sentences):
    text = "".join(sentences)
    starts = Regex(Regex.Options()).starts(text, language)
    assert [
        text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
    ] == sentences


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("two words", 2),
        ("河水从清晨就开始上涨", 3),
        ("他 说 hello world", 3),
        ("ምንም፡ሰው፡አይደለም", 3),
        ("水", 1),
        ("น้ำท่วมตั้งแต่เช้าตรู่", 7),
    ],
)
def test_words_are_counted_with_and_without_blanks(text, words):
    assert count_words(text) == words
