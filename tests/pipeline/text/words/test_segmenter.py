"""Promises of every segmenter of words whose package is installed, and what is said where one is
missing."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import SEGMENTERS
from clozeline.pipeline.text import words as segmenters
from clozeline.pipeline.tokenize.encode.config import EncodeConfig
from tests.contracts import contract
from tests.refusals import refused

PACKAGES = {  # what each imports
    "jieba": "jieba",
    "fugashi": "fugashi",
    "pythainlp": "pythainlp.tokenize",
}
TEXT = st.text(
    st.sampled_from(
        "我们在北京大学學習。，吾輩は猫であるカタナﾊﾝｶｸผมรักภาษาไทย๑ฯaB1 .\n\t\u2028\u200b\u3000é"
    ),
    max_size=60,
)


def built(name):
    try:
        return SEGMENTERS.resolve(name).build()
    except ConfigurationError as error:
        pytest.skip(str(error))


def words_of(segmenter, text):
    starts = segmenter.starts(text, {})
    return [
        text[first:last].strip()
        for first, last in zip(starts, [*starts[1:], len(text)], strict=True)
    ]


@contract(SEGMENTERS)
@settings(max_examples=100)
@given(text=TEXT | st.text(max_size=40))
def test_words_start_with_what_is_visible_one_after_another(name, text):
    segmenter = built(name)
    starts = segmenter.starts(text, {})

    assert starts == sorted(set(starts))
    assert all(0 <= start < len(text) and not text[start].isspace() for start in starts)
    assert segmenter.starts(text, {}) == starts
    assert isinstance(segmenter.VERSION, int)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "jieba",
            "我们在北京大学学习。\n她喜欢 iPhone手机",
            ["我们", "在", "北京大学", "学习", "。", "她", "喜欢", "iPhone", "手机"],
        ),
        (
            "fugashi",
            "吾輩は猫である。 名前はまだ無い。",
            ["吾輩", "は", "猫", "で", "ある", "。", "名前", "は", "まだ", "無い", "。"],
        ),
        ("pythainlp", "ผมรักภาษาไทย และแมว", ["ผม", "รัก", "ภาษาไทย", "และ", "แมว"]),
    ],
)
def test_words_of_plain_sentences(name, text, words):
    """As a reader of the language cuts them."""
    assert words_of(built(name), text) == words


@contract(SEGMENTERS)
@pytest.mark.parametrize("letter", ["一", "あ", "ก", "เแ", "a", "。", " "])
def test_a_long_run_of_one_letter_is_cut_into_pieces(name, letter, monkeypatch):
    """The time grows with the text: no call gets more than a thousand characters, and each
    character is in one."""
    segmenter = built(name)
    given = []
    split = segmenter.split
    monkeypatch.setattr(segmenter, "split", lambda piece: given.append(piece) or list(split(piece)))
    text = letter * 30_000
    segmenter.starts(text, {})
    if name == "given":
        return  # its words come with the document

    assert "".join(given) == text
    assert max(map(len, given)) <= 1000


def test_a_long_line_is_cut_after_a_mark():
    class Half(segmenters.Segmenter):
        def split(self, piece):
            pieces.append(piece)
            return piece.split()

    pieces = []
    Half(None).starts("x" * 700 + "。" + "y" * 700 + "\nend", {})

    assert pieces == ["x" * 700 + "。", "y" * 700 + "\n", "end"]


def test_a_word_that_the_text_does_not_have_is_passed_over():
    class Folding(segmenters.Segmenter):
        def split(self, piece):
            return ["ab", "CD", "  ", "ef"]

    assert Folding(None).starts("ab cd ef", {}) == [0, 6]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_named_with_the_command_that_installs_it(name, monkeypatch):
    for module in {PACKAGES[name], PACKAGES[name].partition(".")[0]}:
        monkeypatch.setitem(sys.modules, module, None)
    with refused(rf"encode\.words {name}: .*pip install 'clozeline\[words\]'"):
        SEGMENTERS.resolve(name).build()


def test_a_segmenter_is_for_its_languages():
    config = validate(
        EncodeConfig, {"words": {"zh": "jieba", "ja": "fugashi", "th": "pythainlp"}}, "encode"
    )

    assert [chosen.name for chosen in config.words.values()] == ["jieba", "fugashi", "pythainlp"]

    with refused(r"jieba segments zh, yue, wuu, got the language 'ja'"):
        validate(EncodeConfig, {"words": {"ja": "jieba"}}, "encode")


@pytest.mark.parametrize(
    ("text", "words", "starts"),
    [
        ("我们在北京 大学", ["我们", "在", "北京", "大学"], [0, 2, 3, 6]),
        ("a b a b", ["a", " ", "b", "a b"], [0, 2, 4]),
        ("caf\u00e9 noir", ["cafe\u0301", "noir"], [0, 5]),
        ("ab cd ef", ["ab", "xy", "ef"], [0, 6]),
        ("ab cd", ["cd", "ab"], [3]),
        ("ab cd", [3, None, "cd", ["ab"]], [3]),
        ("ab cd", "ab cd", []),
        ("ab cd", None, []),
        ("a" + "x" * 5000 + "b", ["a", "b"], [0]),
    ],
)
def test_words_that_come_with_a_document(text, words, starts):
    """They are found one after another; what the text does not have there is passed over."""
    assert (
        SEGMENTERS.resolve({"name": "given", "key": "tokens"})
        .build()
        .starts(text, {"tokens": words})
        == starts
    )
    assert SEGMENTERS.resolve("given").build().starts(text, {"tokens": words}) == []


def test_many_wrong_words_take_no_time():
    """A word is looked for in the next thousand characters alone."""
    segmenter = SEGMENTERS.resolve("given").build()
    assert segmenter.starts("a" * 1_000_000, {"words": ["b"] * 10_000}) == []
