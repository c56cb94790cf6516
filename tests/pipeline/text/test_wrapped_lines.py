"""Hard-wrapped paragraphs are found at any width, in any language, and nothing else is taken for
one."""

import json
import random
import re
import sysconfig
import textwrap
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.text.line_ends import LineEnds
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.wrapped_lines import group_lines, join_paragraph, unwrap

KEPT = json.loads(Path(__file__).with_name("unwrapped_texts.json").read_text())
"""verse, lists, tables, menus, logs, chat and code"""

ENGLISH = [
    "The river had been rising since the early morning, and nobody in the village slept. Men "
    "carried sacks of sand to the lower bridge while the school was being emptied. By noon the "
    "water stood at the second step of the church.",
    "A printer from the south arrived with two carts of type and no money at all. He rented a cold "
    "room above the bakery and began to set a small newspaper; its first number had one page and "
    "four mistakes.",
    "In the end the bridge was built after all, and the newspaper reported it on the first page. "
    "Nobody ever found out who had paid for the paper, and in spring the printer was gone.",
]
GERMAN = [
    "Der Fluss war seit dem frühen Morgen gestiegen, und niemand im Dorf hatte geschlafen. Männer "
    "trugen Säcke voll Sand zur unteren Brücke, während die Schule geräumt wurde. Am Mittag stand "
    "das Wasser an der zweiten Stufe.",
    "Ein Drucker aus dem Süden kam mit zwei Karren voller Lettern und ohne Geld. Er mietete ein "
    "kaltes Zimmer über der Bäckerei und begann, eine kleine Zeitung zu setzen; die erste Nummer "
    "hatte eine Seite und vier Fehler.",
]
RUSSIAN = [
    "Река поднималась с самого утра, и никто в деревне не спал. Мужчины носили мешки с песком к "
    "нижнему мосту, пока школу освобождали от детей и книг. К полудню вода стояла у второй ступени "
    "церкви, и старый мельник молчал.",
]
ARABIC = [
    "كان النهر يرتفع منذ الصباح الباكر ولم ينم أحد في القرية. حمل الرجال أكياس الرمل إلى الجسر "
    "السفلي بينما كانت المدرسة تخلى من الأطفال والكتب. وعند الظهر وصل الماء إلى الدرجة الثانية من "
    "المسجد ولم يتكلم الطحان العجوز.",
]
HINDI = [
    "नदी सुबह से ही चढ़ रही थी और गाँव में कोई नहीं सोया। आदमी रेत की बोरियाँ निचले पुल तक ले जा "
    "रहे थे जबकि स्कूल खाली किया जा रहा था। दोपहर तक पानी मंदिर की दूसरी सीढ़ी पर खड़ा था और बूढ़ा "
    "चक्की वाला चुप था।",
]
LANGUAGES = {"en": ENGLISH, "de": GERMAN, "ru": RUSSIAN, "ar": ARABIC, "hi": HINDI}


def wrap(text, width, **options):
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False, **options)


@pytest.mark.parametrize("width", [44, 60, 66, 72, 76, 80, 100])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrapped_paragraph_is_one_line_again(language, width):
    paragraphs = [" ".join(LANGUAGES[language] * 4), *LANGUAGES[language]]
    wrapped = "\n\n".join(wrap(paragraph, width) for paragraph in paragraphs)
    assert unwrap(wrapped).split("\n\n") == paragraphs


FORMS = {
    "plain": {},
    "indented": {"initial_indent": "    ", "subsequent_indent": "    "},
    "first line indented": {"initial_indent": "    "},
    "hanging": {"initial_indent": "  * ", "subsequent_indent": "    "},
    "quoted": {"initial_indent": "> ", "subsequent_indent": "> "},
    "quoted twice": {"initial_indent": ">> ", "subsequent_indent": ">> "},
}


@pytest.mark.parametrize("blank", ["\n\n", "\n"])
@pytest.mark.parametrize("form", FORMS)
def test_how_a_paragraph_is_set_off_does_not_matter(form, blank):
    """Mails quote, manuals indent, books indent the first line: each paragraph is one line, with
    its first indent."""
    if blank == "\n" and form not in ("first line indented", "hanging"):
        pytest.skip("nothing tells where a paragraph ends")
    wrapped = blank.join(wrap(paragraph, 68, **FORMS[form]) for paragraph in ENGLISH)
    first = FORMS[form].get("initial_indent", "")
    assert unwrap(wrapped).split(blank) == [first + paragraph for paragraph in ENGLISH]


@pytest.mark.parametrize("width", [20, 30, 40])
def test_scripts_without_blanks(width):
    chinese = (
        "河水从清晨就开始上涨村里没有人睡觉。男人们把沙袋搬到下面的桥上学校里的孩子和书都被送走了"
        * 4
    )
    lines = [chinese[start : start + width] for start in range(0, len(chinese), width)]
    assert unwrap("\n".join(lines)) == chinese


def test_a_heading_a_list_and_code_between_wrapped_paragraphs_stay():
    code = "for name in names:\n    print(name)\n    total += 1\nreturn total"
    items = "- two cups of flour\n- three eggs\n- a lemon"
    parts = [
        "The Flood",
        wrap(ENGLISH[0], 72),
        code,
        wrap(ENGLISH[1], 72),
        items,
        wrap(ENGLISH[2], 72),
    ]

    assert unwrap("\n\n".join(parts)).split("\n\n") == [
        "The Flood",
        ENGLISH[0],
        code,
        ENGLISH[1],
        items,
        ENGLISH[2],
    ]


def test_a_line_of_prose_may_begin_like_an_item():
    lines = wrap(" ".join(ENGLISH), 64).split("\n")
    for number, start in ((3, "1986."), (6, "-"), (8, "a)")):
        lines[number] = " ".join(
            [
                start,
                *lines[number].split()[1 + (len(start) > 2) :],
            ]
        )
    assert unwrap("\n".join(lines)) == " ".join(lines)


@pytest.mark.parametrize("name", KEPT)
def test_line_ends_that_mean_something_stay(name):
    text = normalize(KEPT[name])
    assert unwrap(text) == text


FILES = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))


@pytest.mark.parametrize(
    "path",
    random.Random(2).sample(FILES, 70),
    ids=lambda path: path.name,
)
def test_code_is_never_joined(path):
    """Programs of the standard library, without their prose: docstrings and comments."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    prose = {
        number
        for token in tokens
        if token.type in (tokenize.STRING, tokenize.COMMENT)
        for number in range(token.start[0], token.end[0] + 1)
        if token.end[0] > token.start[0] or token.line.lstrip().startswith("#")
    }

    lines = path.read_text().split("\n")
    code = "\n".join(line for number, line in enumerate(lines, 1) if number not in prose)

    assert unwrap(code) == code


@given(st.lists(st.text("ab .,\n>-1字", max_size=90), max_size=12))
def test_each_line_is_in_one_paragraph(lines):
    lines = "\n".join(lines).split("\n")
    groups = group_lines(lines)

    assert [line for group in groups for line in group] == lines
    assert all(len(group) == 1 or all(group) for group in groups)

    for group in groups:
        joined = join_paragraph(group, LineEnds(""))
        assert re.sub(r"[\s>]", "", joined) == re.sub(r"[\s>]", "", "".join(group))
