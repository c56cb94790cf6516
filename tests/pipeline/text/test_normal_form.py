import re
import unicodedata

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.native.library import numpy_only
from clozeline.pipeline.text import normal_form
from clozeline.pipeline.text.normal_form import (
    fold,
    join_lines,
    match_words,
    normalize,
    normalize_as,
)
from clozeline.pipeline.text.word_hashes import hash_words

ODD = st.text(
    st.sampled_from(
        "a "
        "e\u0301\u00e9\r\n\t\x00\x0b\x85\u2028\u2029\u3000\xa0\ud800\U0001f469\u200d\ufb01漢\xad\u200b\u2060\u1100\u1161\u0e01"
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("", ""),
        ("a\r\nb\rc\x85d\u2028e", "a\nb\nc\nd\ne"),
        ("one\u2029two", "one\n\ntwo"),
        ("e\u0301", "\u00e9"),
        ("e\x00\u0301", "\u00e9"),
        ("nul\x00 bell\x07 tab\tstays", "nul bell tab\tstays"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07on \x1b(Bblue", "red on blue"),
        ("N\bNA\bA\bAM\bME\bE _\bo_\bf \\\beta, +\bo", "NAME of \\eta, +o"),
        ("trailing \t\u3000\nblanks\xa0\n", "trailing\nblanks"),
        ("a\n \n\t\n\nb", "a\n\nb"),
        ("\n\n  x \n\n", "x"),
        ("x\u00b2 \ufb01 \uff21", "x\u00b2 \ufb01 \uff21"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        (
            "Do\xadnau\xaddampf wa\u2060ter \ufeffwo\ufeffrd e\xad\u0301",
            "Donaudampf water word \xe9",
        ),
        (
            "wa\u200b\u200bter во\u200bда א\u200bב e\u0301\u200bx हि\u200bन्दी 가\u200b나",
            "water вода אב \xe9x हिन्दी 가나",
        ),
        (
            "\U0001f469\u200d\U0001f680 \u05e9\u05dc\u05d5\u05dd",
            "\U0001f469\u200d\U0001f680 \u05e9\u05dc\u05d5\u05dd",
        ),
    ],
)
def test_stored_form(raw, stored):
    assert normalize(raw) == stored


@pytest.mark.parametrize(
    "text",
    [
        "ខ្ញុំ_ចង់",
        "မြန်_မာ",
        "ไทย_กัน",
        "ລາວ_ສາ",
        "漢_字",
        "བོད_ས",
        "a_ 1_2 (_b ก_a b_ก",
        "a\u200cb ل\u200d",
    ],
)
def test_borders_of_words_stay_where_no_blank_shows_them(text):
    assert normalize(text.replace("_", "\u200b")) == text.replace("_", "\u200b")


@given(st.lists(ODD, max_size=5))
def test_joined_lines_have_the_stored_form_of_their_text(raw):
    lines = [line.strip() for text in raw for line in normalize(text).split("\n")]
    assert join_lines(lines) == normalize("\n".join(lines))


@settings(max_examples=300)
@given(st.one_of(st.text(st.characters(), max_size=40), ODD))
def test_stored_form_is_stable_and_clean(raw):
    stored = normalize(raw)

    assert normalize(stored) == stored
    assert unicodedata.is_normalized("NFC", stored)
    assert stored == stored.strip()
    assert "\n\n\n" not in stored
    assert all(unicodedata.category(c) not in ("Cc", "Cs") or c in "\n\t" for c in stored)
    assert all(line == line.rstrip() for line in stored.split("\n"))


@pytest.mark.parametrize(
    ("raw", "changes"),
    [
        ("plain text\n\nof two paragraphs", {}),
        (
            "a\x00b\x07\r\n\t\x85c",
            {"control_characters": 2, "line_ends": 2, "blanks_at_line_ends": 1},
        ),
        ("    first line", {"blanks_around_text": 4}),
        ("a\n\n\n\nb", {"blank_lines": 2}),
        ("cafe\u0301", {"composed_characters": 1}),
        ("10 \u212b", {"composed_characters": 1}),
        ("co\xadop \ufeffer\u200bate", {"invisible_characters": 3}),
        ("a\fb\ud800", {"line_ends": 1, "surrogates": 1}),
        ("don\x92t\x81", {"control_characters": 2}),
        ("one\x1etwo", {"control_characters": 1}),
    ],
)
def test_what_prose_loses_is_counted_by_type(raw, changes):
    stored, counted = normalize_as("prose", raw)
    assert (stored, counted) == (normalize(raw), changes)


@given(ODD)
def test_counts_of_prose_add_up_to_what_is_gone(raw):
    """Each dropped character is counted once: only a line end, an accent and a surrogate may become
    another one."""
    stored, counted = normalize_as("prose", raw)
    rewritten = sum(counted[name] for name in ("line_ends", "composed_characters", "surrogates"))
    dropped = counted.total() - rewritten
    longer = raw.count("\u2029")  # two newlines

    assert dropped <= len(raw) - len(stored) + longer <= dropped + rewritten
    assert (stored == raw) == (not counted)


@pytest.mark.parametrize("mark", ["\u0323", "\u0344", "\u0301\u0323", "\U0001d165\U0001d16d\u0301"])
def test_30_marks_in_a_row_are_kept(mark):
    raw = f"q{mark * 100}b"
    stored, changes = normalize_as("prose", raw)

    assert len(stored) == 32
    assert changes["combining_marks"] == len(raw) - 32
    assert normalize(stored) == stored
    assert normalize_as("none", raw) == normalize_as("code", raw) == (raw, {})
    assert match_words(raw) == match_words(stored)


CODE = [
    "    return x\n",
    "s = '''a\n\n\n\nb   \n'''\n",
    "@@ -1,3 +1,3 @@\n \n-a\n+b\n \n",
    "name = 'e\u0301' + '\u212b'\n",
    "import os\n\f\nclass A:\n\tpass\n",
    "soft = 'a\xadb\u200b\u2060\u2028\x85'\n",
    "escape = '\x1b[0m\x07'\r\n+ mixed line ends\n",
    "\n\n# three empty lines\n\n\n\n",
]


@pytest.mark.parametrize("text", CODE)
@pytest.mark.parametrize("form", ["code", "none"])
def test_code_stays_as_it_is(form, text):
    """The stored form of prose changes each of them."""
    assert normalize_as(form, text) == (text, {})
    assert normalize(text) != text


@pytest.mark.parametrize(
    ("raw", "stored", "changes"),
    [
        ("\ufeffx = 1\n", "x = 1\n", {"byte_order_mark": 1}),
        ("a\r\nb\r\n", "a\nb\n", {"line_ends": 2}),
        ("a\r\nb\n", "a\r\nb\n", {}),
        ("a\rb\r\n", "a\rb\r\n", {}),
        ("a\0b\ud800", "ab\ufffd", {"control_characters": 1, "surrogates": 1}),
    ],
)
def test_code_loses_what_no_compiler_reads(raw, stored, changes):
    assert normalize_as("code", raw) == (stored, changes)
    assert normalize_as("none", raw)[0] == raw.replace("\ud800", "\ufffd")


@pytest.mark.parametrize(
    ("raw", "stored", "changes"),
    [
        ("ACGT", "ACGT", {}),
        ("acgtNNNN\r\nAC GT\n", "ACGTNNNNACGT", {"lower_case": 4, "white_space": 4}),
        ("MKV*LA-X.\x00\ud800", "MKV*LA-X.\ufffd", {"control_characters": 1, "surrogates": 1}),
        ("\u00df\u0130\u0131", "\u00df\u0130\u0131", {}),  # no letter becomes two
    ],
)
def test_sequences_are_capital_letters_without_white_space(raw, stored, changes):
    assert normalize_as("sequence", raw) == (stored, changes)


@pytest.mark.parametrize("form", ["code", "sequence"])
@given(raw=ODD)
def test_other_forms_are_idempotent_and_valid(form, raw):
    stored, _ = normalize_as(form, raw)
    assert normalize_as(form, stored) == (stored, {}) or stored.startswith("\ufeff")
    stored.encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, WORLD! 3.14 x86", ["hello", "world", "3", "14", "x86"]),
        ("Größe STRASSE Straße", ["grosse", "strasse", "strasse"]),
        ("café cafe\u0301", ["cafe", "cafe"]),
        ("漢字かな カナ", ["漢", "字", "か", "な", "カ", "ナ"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("हिन्दी", ["हिन्दी"]),
        ("१२ ٣", ["१२", "٣"]),
        ("total -= a-b/2", ["total", "-=", "a", "b", "/", "2"]),
        ("x ≤ y, x≠y", ["x", "≤", "y", "x", "=", "\u0338", "y"]),
        ("— well-known – 10 % …", ["well", "known", "10", "%"]),
        ("Wa\xadter wa\u200bter wa\u2060ter w\ufeffater 1\xad2", ["water"] * 4 + ["12"]),
        ("", []),
    ],
)
def test_match_form(text, words):
    assert match_words(text) == words


def kind_of(character):
    category = unicodedata.category(character)
    if normal_form._UNSPACED.match(character):
        return "mark of unspaced" if category in ("Mn", "Mc") else "unspaced"
    if category in ("Mn", "Mc"):
        return "mark"
    if character == "_" or character.isalnum():
        return "letter"
    if character in "%&*/^" or category == "Sm":
        return "operator" if character.isascii() else "symbol"
    return "hyphen" if character == "-" else "other"


FOLLOWERS = {
    "letter": {"letter", "mark"},
    "mark": {"letter", "mark"},
    "unspaced": {"mark", "mark of unspaced"},
    "mark of unspaced": {"mark", "mark of unspaced"},
    "operator": {"operator"},
    "hyphen": {"operator"},
    "symbol": {"mark"},
    "stroke": {"mark"},
    "other": set(),
}


def slow_words(text):
    """Words character by character; in a string between blanks, what follows the first foreign
    character is folded together."""
    words = []

    for token in re.split("[ \t-\r]", text):
        start = next((at for at, one in enumerate(token) if not one.isascii()), len(token))
        folded = unicodedata.normalize("NFD", normal_form.cut_marks(token[start:].casefold()))
        if not normal_form._VIETNAMESE.search(folded):
            folded = normal_form._OPTIONAL_MARKS.sub("", folded)
        state = "other"

        for at, character in enumerate(token[:start].lower() + folded):
            kind = kind_of(character)
            joins = kind in FOLLOWERS[state] and (at != start or kind in ("letter", "mark"))
            if joins:
                words[-1] += character
            else:
                words.append(character)
                if state == "operator" and kind in ("mark", "mark of unspaced") and at > start:
                    kind = "stroke"
            if not joins or state == "hyphen":
                state = kind

    return [word for word in words if kind_of(word[-1]) not in ("other", "hyphen")]


EVERY = st.text(st.characters(), max_size=20) | st.text(
    "aZ_09 .-=<*\t\x1c\x85é\u00a0漢\u0301’ก๑²ªſßİ\u0345\u093e\u0338≠≤\U00011173\U0001d165\U000e0100ạ",
    max_size=40,
)


@settings(max_examples=400)
@given(EVERY)
def test_words_and_their_hashes_equal_a_slow_reference(text):
    words = match_words(text)
    hashes = [xxhash.xxh3_64_intdigest(word.encode(errors="surrogatepass")) for word in words]
    native = hash_words(fold(text))
    with numpy_only():
        numpy_form = hash_words(fold(text))

    assert words == slow_words(text)
    assert native.tolist() == numpy_form.tolist() == hashes
    assert native.dtype == numpy_form.dtype == np.uint64


@pytest.mark.parametrize("category", ["Cc", "Cf", "Zs", "Zl", "Zp"])
def test_no_character_that_separates_words_is_lost(category):
    """A blank, a line end and a control that counts as one never let two words touch."""
    characters = [
        chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == category
    ]
    glued = [c for c in characters if c.isspace() and normalize(f"a{c}b") == "ab"]
    assert glued == []


def test_codes_of_windows_1252_are_what_browsers_show():
    codes = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
    assert {code: normalize(f"a{chr(code)}b") for code in codes} == {
        code: "a\nb" if code == 0x85 else f"a{shown}b" for code, shown in codes.items()
    }
