# ruff: noqa: E501 (whole articles, one a line)
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.languages import remove_noise
from clozeline.pipeline.clean.languages.py3langid import Py3langid

# The first article of the Universal Declaration of Human Rights, as the United Nations publish it.
ARTICLE = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
}  # fmt: skip
IDENTIFIER = Py3langid(Py3langid.Options())


def test_articles_are_told_apart():
    found = {language: IDENTIFIER.identify(text) for language, text in ARTICLE.items()}
    right = [language for language, (answer, _) in found.items() if answer == language]
    assert len(right) >= len(ARTICLE) - 1
    assert all(0 <= score <= 1 for _, score in found.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234 5678 90",
        "https://example.org/all/human/beings/are/born/free",
        "hi there",
        "!!! ??? ...",
        "x = y1 + z2 * (a3 - b4)",
    ],
)
def test_what_is_too_little_is_undecided(text):
    assert IDENTIFIER.identify(text)[0] == "und"


def test_addresses_and_digits_do_not_count():
    noisy = ARTICLE["fr"] + " 0123456789 https://www.example.org/the/quick/brown/fox/and/the/lazy/dog" * 8
    assert IDENTIFIER.identify(noisy)[0] == "fr"


def test_a_text_in_a_script_that_the_language_does_not_have_is_undecided():
    tai_viet = "".join(chr(0xAA80 + number % 48) + " " * (number % 7 == 0) for number in range(200))
    assert IDENTIFIER.identify(tai_viet)[0] == "und"
    mixed = ARTICLE["ru"][:40] + " " + ARTICLE["de"]
    assert IDENTIFIER.identify(mixed)[0] in ("de", "und")


@given(st.text("hw tp:/.s1٣9x\n", max_size=60))
def test_noise_is_what_one_pattern_finds(text):
    assert remove_noise(text) == re.sub(r"(?:https?://|www\.)\S+|\d+", " ", text)
