import random
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model

from clozeline.native.library import is_available, missing_note
from clozeline.pipeline.clean.languages import count_letters, remove_noise
from clozeline.pipeline.clean.languages.py3langid import Py3langid, _find_best_two, _model

# The first article of the Universal Declaration of Human Rights, as the United Nations publish it.
ARTICLE = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with "
    "reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und "
    "Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de "
    "raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом "
    "и совестью и должны поступать в отношении друг друга в духе братства.",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
}
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
    noisy = (
        ARTICLE["fr"]
        + " 0123456789 https://www.example.org/the/quick/brown/fox/and/the/lazy/dog" * 8
    )
    assert IDENTIFIER.identify(noisy)[0] == "fr"


MIXED = {
    **ARTICLE,
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 "
    "부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق، وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم "
    "بعضا بروح الإخاء.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
}
"""More languages of other scripts."""


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "ru", "ar", "hi"])
@pytest.mark.parametrize("share", [12, 25, 35])
def test_words_in_another_script_do_not_decide(language, share):
    """Eighty pieces of a text, of which a share is in the other language."""
    answers = []
    for main, other in ((language, "en"), ("en", language)):
        texts = [MIXED[main] * 99, MIXED[other] * 99]
        chosen = [number * share // 100 > (number - 1) * share // 100 for number in range(1, 81)]
        pieces = [texts[each][24 * place :][:24] for place, each in enumerate(chosen)]
        answer, score = IDENTIFIER.identify(" ".join(pieces))
        answers.append(answer if score >= 0.8 else (answer, score))
    assert answers == [language, "en"]


LETTERS = [chr(point) for point in range(0x20000) if unicodedata.category(chr(point))[0] == "L"]
TRAINED = (
    "LATIN CYRILLIC GREEK ARABIC HEBREW ARMENIAN GEORGIAN DEVANAGARI BENGALI GURMUKHI "
    "GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR "
    "ETHIOPIC KHMER JAVANESE HANGUL HIRAGANA KATAKANA CJK HALFWIDTH FULLWIDTH"
).split()
"""First words of the names of letters in scripts that the model has a language of."""


def letters_by_script():
    """Return the letters of Unicode by the start of their names, one script or a part of one."""
    found = {}

    for letter in LETTERS:
        name = unicodedata.name(letter, "").split()
        if name and name[0] not in TRAINED:
            found.setdefault(" ".join(name[:2]) if len(name) > 3 else name[0], []).append(letter)

    return {name: letters for name, letters in found.items() if len(letters) >= 5}


def test_a_script_that_the_model_was_not_trained_on_is_undecided():
    """Words of random letters: syllabics, Mongolian, Tai Tham, Cherokee and Baybayin were Amharic,
    others `zxx`."""
    draw = random.Random(1)
    scripts = letters_by_script()

    assert len(scripts) > 120

    answers = {}
    for name, letters in scripts.items():
        text = " ".join("".join(draw.choices(letters, k=5)) for _ in range(80))
        answers[name] = IDENTIFIER.identify(text)[0]

    assert {name: answer for name, answer in answers.items() if answer != "und"} == {}


@pytest.mark.parametrize("upper", [False, True])
def test_a_cipher_is_no_language(upper):
    """Letters of English replaced by others, one for one: their lengths and marks are those of
    English."""
    draw = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz"

    for _ in range(30):
        other = "".join(draw.sample(letters, 26))
        text = (ARTICLE["en"].lower() * 3).translate(str.maketrans(letters, other))
        language, score = IDENTIFIER.identify(text.upper() if upper else text)
        assert language in ("und", "zxx") or score < 0.9, (language, score)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "kk",
            "Барлық адамдар тумысынан азат және қадір-қасиеті мен құқықтары тең болып дүниеге "
            "келеді.",
        ),
        ("mn", "Хүн бүр төрж мэндлэхэд эрх чөлөөтэй, адилхан нэр төртэй, ижил эрхтэй байдаг."),
        ("ja", "会議の資料は明日までに担当者へ送付し、確認後に最終版を作成する予定です。"),
        ("zh", "会议的资料明天以前送给负责人，确认以后再制作最终版本，并且发给所有参加者。"),
    ],
)
def test_neighbors_of_one_script_are_told_apart(language, text):
    assert IDENTIFIER.identify(text)[0] == language


@pytest.mark.parametrize(
    ("language", "text"),
    [("zh", "在 {} 中添加下列行，然后启动。"), ("ru", "Добавьте эти строки в {}, затем")],
)
def test_letters_of_paths_and_code_are_no_prose(language, text):
    """A handbook names files in letters that are more than its own."""
    line = text.format("/usr/share/doc/package/examples/configuration.d/sources.list")
    assert IDENTIFIER.identify("\n".join([line] * 4))[0] == language
    assert IDENTIFIER.identify(f"{ARTICLE['en']} {line}")[0] == "en"


@pytest.mark.parametrize("first", ["en", "ru", "zh"])
def test_a_long_text_is_judged_by_all_of_its_parts(first):
    """2,000 characters of one language, and 33,000 of another: the second one, whatever the first
    is."""
    start = (ARTICLE[first] * 40)[:2000]
    rest = (ARTICLE["de"] * 300)[:33_000]
    assert IDENTIFIER.identify(f"{start}\n{rest}")[0] == "de"
    assert IDENTIFIER.identify(f"{rest}\n{start}")[0] == "de"


@given(st.text("hw tp:/.s1٣9x\n", max_size=60))
def test_noise_is_what_one_pattern_finds(text):
    assert remove_noise(text) == re.sub(r"(?:https?://|www\.)\S+|\d+", " ", text)


LIBRARY = Model.from_model_file(MODEL_FILE, norm_probs=True)


@pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(sorted(ARTICLE.values())), max_size=8).map(" ".join)
    | st.lists(st.text(st.sampled_from(LETTERS), min_size=1), max_size=40).map(" ".join)
    | st.binary(max_size=300)
)
def test_the_compiled_loop_has_the_bits_of_the_library(text):
    native = _model(is_native=True)
    assert native.rank(text) == LIBRARY.rank(text)
    (best, score), (_, second), *_ = LIBRARY.rank(text)
    assert _find_best_two(native, text) == (best, score, second)


@given(st.text(max_size=80) | st.text("aZß9_ م漢。", max_size=80))
def test_letters_are_counted_without_digits_and_marks(text):
    letters = re.sub(r"[\W\d_]+", "", text)
    counted = count_letters(text)
    assert counted.total() == len(letters)
    assert counted["a"] == sum(map(str.isascii, letters))
    assert all(counted[letter] == letters.count(letter) for letter in letters if letter > "\x7f")
