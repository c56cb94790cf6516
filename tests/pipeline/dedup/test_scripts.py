"""Texts that differ in vowel signs, numbers or operators are no duplicates.

Those that differ in optional marks are.
"""

import random

import numpy as np
import pytest

from clozeline.extensions.curation.decontaminate.ngram_index import Matcher, build_index, runs_of
from clozeline.pipeline.dedup.near import Sketch
from clozeline.pipeline.dedup.repeats import LinePieces, SpanPieces
from clozeline.pipeline.text.normal_form import match_words


def jaccard(left, right, ngram=5):
    """The similarity of two texts by their sets of shingles, without hash functions."""
    first, second = (set(Sketch(ngram).shingles(text).tolist()) for text in (left, right))
    return len(first & second) / len(first | second)


def rates(first, second, third):
    """A function whose letters are always the same."""
    return (
        "def rate(values, low, high):\n    for value in values:\n"
        f"        if value {first} low and value {second} high:\n"
        f"            total {third}= value {second} low\n"
        f"    return total {first} high {third} low\n"
    )


def prices(seed):
    draw = random.Random(seed).randint
    return "\n".join(
        f"{name} from the workshop, with delivery to the house: {draw(10, 99)}.{draw(10, 99)} euros"
        for name in ("a chair", "a table of oak", "a bench", "a cradle", "a stool", "a shelf")
    )


VOWELS = "ािीुूेैोौ"
CONSONANTS = "कखगचजतदनपबमयरलवसह"


def hindi(seed):
    """Words whose consonants are always the same, and whose vowel signs are drawn."""
    letters = random.Random(1)
    draw = random.Random(seed)
    return " ".join(
        "".join(letters.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(3))
        for _ in range(60)
    )


THAI = ["ก่า ก้า ก๊า ขี่ ขี้ คู่ คู้ ง่า ง้า จี้", "กา กา กา ขี ขี คู คู งา งา จี"]
DHIVEHI = ["ބަސް ބިސް ބުސް މަގު މިގު މުގު ދަރި ދިރި", "ބުސް ބަސް ބިސް މުގު މަގު މިގު ދިރި ދަރި"]
VIETNAMESE = ["mạ mả cở cợ bự bử dữ dự ngỏ ngọ", "ma ma co co bu bu du du ngo ngo"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (rates("<", ">", "+"), rates("<=", "//", "*")),
        (prices(1), prices(2)),
        (hindi(1), hindi(2)),
        (THAI[0] * 9, THAI[1] * 9),
        (DHIVEHI[0] * 9, DHIVEHI[1] * 9),
        (VIETNAMESE[0] * 9, VIETNAMESE[1] * 9),
    ],
    ids=["programs", "tables", "Hindi", "Thai", "Dhivehi", "Vietnamese"],
)
def test_what_makes_another_text_is_compared(left, right):
    assert jaccard(left, right) < 0.5
    assert jaccard(left, left) == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("قَرَأَ الوَلَدُ الكِتَابَ فِي البَيْتِ الكَبِيرِ أَمْسِ", "قرأ الولد الكتاب في البيت الكبير أمس"),
        ("הַיֶּלֶד קָרָא אֶת הַסֵּפֶר בַּבַּיִת אֶתְמוֹל", "הילד קרא את הספר בבית אתמול"),
        ("Le garçon élève a déjà été à l'école", "le garcon eleve a deja ete a l'ecole"),
    ],
    ids=["Arabic", "Hebrew", "French"],
)
def test_what_writers_leave_out_is_not_compared(left, right):
    assert match_words(left) == match_words(right)


@pytest.mark.parametrize("kind", [LinePieces, SpanPieces])
def test_lines_and_spans_with_other_numbers_are_others_unless_a_key_says_so(kind):
    texts = [
        f"The bill of {year} came to {total} crowns. It was paid. Nobody asked."
        for year, total in ((1901, 30), (1902, 45))
    ]

    for numbers, same in ((True, False), (False, True)):
        pieces = kind(1, False, "all", 1, numbers)
        first, second = (pieces.hashes(text, "en")[0][0] for text in texts)
        assert (first == second) == same


LETTERS = {
    "zh": "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要",
    "ja": "のにはをたがでてとしれさあいうこもなかよまそりき",
    "th": "กขคงจชซดตถทนบปผพมยรลวสหอา",
    "lo": "ກຂຄງຈສຊຍດຕຖທນບປຜຝພຟມຢຣລວຫອ",
    "km": "កខគឃងចឆជឈញដឋឌឍណតថទធនបផពភម",
}


@pytest.mark.parametrize("language", LETTERS)
def test_three_characters_are_a_word_of_an_item_in_scripts_without_blanks(language):
    """A text of five characters is no item, and chance does not find one of five words in unrelated
    documents."""
    draw = random.Random(language)
    write = lambda size: "".join(draw.choices(LETTERS[language], k=size))  # noqa: E731
    items = [write(15) for _ in range(30)] + [write(40) for _ in range(30)]
    matcher = Matcher(
        build_index([(str(number), (item,)) for number, item in enumerate(items)], 13)
    )

    assert not any(matcher.find(write(3000)) for _ in range(20))

    for item in items:
        assert matcher.find(f"{write(50)} {item} {write(50)}")

    assert runs_of(match_words(write(14)), 13) == []

    long = match_words(write(100))

    assert {run.count(" ") + 1 for run in runs_of(long, 13)} == {39}


def test_runs_of_words_and_characters_have_the_same_size():
    words = [*"abcdefghijklmnop", *"河水从清晨就开始上涨村里没有人睡觉", *"qrstuvwxyz"]
    for run in runs_of(words, 13):
        sizes = [1 if "\u3400" < word < "\ufaff" else 3 for word in run.split(" ")]
        assert sum(sizes) >= 39 > sum(sizes[:-1])


def test_signatures_do_not_depend_on_what_was_hashed_before():
    texts = [prices(1), hindi(1), "plain words " * 20]
    forwards = Sketch().signatures(texts)
    backwards = Sketch().signatures(texts[::-1])

    np.testing.assert_array_equal(forwards, backwards[::-1])
