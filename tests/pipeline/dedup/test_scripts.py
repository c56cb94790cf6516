"""Texts that differ in vowel signs, numbers or operators are no duplicates."""

import random

import pytest

from clozeline.extensions.curation.repeats import LinePieces, SpanPieces
from clozeline.pipeline.dedup.near import Sketch

PROGRAM = (
    "def rate(values, low, high):\n    for value in values:\n        if value {0} low and value {1} "
    "high:\n            total {2}= value {1} low\n    return total {0} high {2} low\n"
)
VOWELS = "ािीुूेैोौ"
CONSONANTS = "कखगचजतदनपबमयरलवसह"


def prices(seed):
    draw = random.Random(seed).randint
    return "\n".join(
        f"{name} from the workshop, with delivery to the house: {draw(10, 99)}.{draw(10, 99)} euros"
        for name in ("a chair", "a table of oak", "a bench", "a cradle", "a stool", "a shelf")
    )


def hindi(seed):
    """Words whose consonants are always the same, and whose vowel signs are drawn."""
    letters = random.Random(1)
    draw = random.Random(seed)
    words = (
        "".join(letters.choice(CONSONANTS) + draw.choice(VOWELS) for _ in "abc") for _ in range(60)
    )
    return " ".join(words)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (PROGRAM.format("<", ">", "+"), PROGRAM.format("<=", "//", "*")),
        (prices(1), prices(2)),
        (hindi(1), hindi(2)),
        ("ก่า ก้า ก๊า ขี่ ขี้ คู่ คู้ ง่า ง้า จี้", "กา กา กา ขี ขี คู คู งา งา จี"),
        ("ބަސް ބިސް ބުސް މަގު މިގު މުގު ދަރި ދިރި", "ބުސް ބަސް ބިސް މުގު މަގު މިގު ދިރި ދަރި"),
        ("mạ mả cở cợ bự bử dữ dự ngỏ ngọ", "ma ma co co bu bu du du ngo ngo"),
    ],
    ids=["programs", "tables", "Hindi", "Thai", "Dhivehi", "Vietnamese"],
)
def test_what_makes_another_text_is_compared(left, right):
    first, second = ({*Sketch().shingles(text * 9).tolist()} for text in (left, right))
    assert len(first & second) < len(first | second) / 2


@pytest.mark.parametrize("kind", [LinePieces, SpanPieces])
@pytest.mark.parametrize("numbers", [True, False])
def test_lines_and_spans_with_other_numbers_are_others_unless_a_key_says_so(kind, numbers):
    pieces = kind(1, False, "all", 1, numbers)
    texts = [
        f"The bill of {year} came to {year - 1870} crowns. It was paid." for year in (1901, 1902)
    ]
    first, second = (next(pieces.digests(text, "en"))[1] for text in texts)
    assert (first == second) == (not numbers)
