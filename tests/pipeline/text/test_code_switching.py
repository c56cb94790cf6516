"""Words of a text are replaced by their translations, and nothing else is."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.code_switching import WordSwitcher

WORDS = {"cat": ["Katze"], "red": ["rot", "rötlich"], "on": ["auf der"]}


def switcher(word_rate=1.0, sentence_rate=1.0, seed=1):
    config = CodeSwitchConfig(
        dictionaries=[Path("de")], word_rate=word_rate, sentence_rate=sentence_rate
    )
    return WordSwitcher(config, [WORDS], seed)


@given(
    st.lists(st.sampled_from(["cat", "Cat", "on", "dog", "3", "-", " ", "\n", "é"]), max_size=12),
    st.integers(0, 99),
)
def test_at_rate_one_every_known_word_is_replaced_and_the_rest_stays(parts, index):
    text = "".join(parts)
    words = re.findall(r"[^\W\d_]+", text)
    expected = re.sub(
        r"[^\W\d_]+",
        lambda match: {
            "cat": "Katze",
            "Cat": "Katze",
            "on": "auf der",
        }.get(match[0], match[0]),
        text,
    )

    assert switcher().translate_text(index, text) == (
        expected,
        len(words),
        sum(word in ("cat", "Cat", "on") for word in words),
    )


def test_a_word_depends_on_seed_row_and_position_alone():
    halves = switcher(0.5)
    text = " ".join(["cat"] * 200)
    new, words, replaced = halves.translate_text(7, text)

    assert words == 200
    assert 60 < replaced < 140
    assert (
        new.split()[150:]
        == halves.translate_text(
            7,
            " ".join(["cat"] * 50),
            first=150,
        )[0].split()
    )
    assert (
        len(
            {
                new,
                halves.translate_text(8, text)[0],
                switcher(0.5, seed=2).translate_text(7, text)[0],
            }
        )
        == 3
    )
    assert 60 < sum(switcher(sentence_rate=0.5).chooses(index) for index in range(200)) < 140
    assert {switcher().translate(index, 0, "red") for index in range(40)} == {"rot", "rötlich"}


def test_by_default_most_words_of_all_sentences_are_replaced():
    config = validate(CodeSwitchConfig, {"dictionaries": ["en-de.txt"]}, "")
    assert (config.sentence_rate, config.word_rate) == (1.0, 0.9)
