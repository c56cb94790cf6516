"""Normalize text: the stored form of documents, and the match form that finds duplicates."""

import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from string import ascii_lowercase, ascii_uppercase
from typing import Final, Literal, TypeAlias

NORMALIZE_VERSION: Final = 6
"""Increase it when the stored form of any text changes."""
MATCH_VERSION: Final = 5
"""Stored with every hash of the match form; hashes of different versions cannot be compared."""

# Newline and tab are text; line ends, separators, and what browsers show for the codes of
# windows-1252 are rewritten before the rest is dropped.
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
# colors and titles of terminals, and letters printed twice or with a line, as in manual pages
_TERMINAL: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|[()][0-9A-B])"
    "|(.)\x08(?=\\1)|_\x08|\x08_"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028]")
_LEGACY: Final = {
    **dict.fromkeys(range(0x1C, 0x20), " "),
    **{
        code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0) if code != 0x85
    },
}
"""Separators of records, and codes of windows-1252 in texts that were read as Latin-1."""
# a soft hyphen at a line end cuts a word, whose line then ends behind it
_SOFT_CUT: Final = re.compile("\xad[ \t]*\n[ \t]*([^\\s\xad]+)([ \t]?)")
# soft hyphens, word joiners, and byte order marks inside a text: they show where a line may end,
# and split a word for everything that reads words
_INVISIBLES = "\xad\u2060\ufeff"
_INVISIBLE: Final = re.compile(f"[{_INVISIBLES}]")
_ZERO_WIDTH_SPACES: Final = re.compile("\u200b+")
_RARE_CHARACTERS: Final = re.compile(f"[{_CONTROLS}\r\x85\u2028\u2029\ud800-\udfff{_INVISIBLES}]")
_BLANK_LINES: Final = re.compile("\n{3,}")
_CAPITALS: Final = str.maketrans(ascii_lowercase, ascii_uppercase)
# the newline comes first: the engine then skips from one to the next instead of testing every
_BLANK_BEFORE_NEWLINE: Final = re.compile(r"\n(?<=[^\S\n]\n)")

_BASIC: Final = (range(0x80, 0x10000),)
_ASTRAL: Final = (range(0x10000, 0x20000), range(0xE0000, 0xE0200))
"""Planes that hold all marks and symbols beyond the Basic Multilingual Plane."""


@cache
def _class_of(planes: tuple[range, ...], *categories: str) -> str:
    """Return the body of a character class with all characters of these categories."""
    characters = (chr(point) for plane in planes for point in plane)
    chosen = filter(lambda one: unicodedata.category(one) in categories, characters)
    return re.escape("".join(chosen))


# Scripts written without spaces, in which each character counts as a word:
# Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar.
_UNSPACED: Final = re.compile(
    "[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af\u3041-\u309f\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9f\u0e01-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u19e0-\u19ff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f]"
)
# Further scripts without spaces: Tibetan, Tai Le, New Tai Lue, Tai Tham, Balinese, Yi, Javanese,
# Tai Viet.
_WITHOUT_BLANKS: Final = re.compile(
    rf"{_UNSPACED.pattern}|[\u0f00-\u0fff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua000-\ua4cf"
    r"\ua980-\ua9df\uaa80-\uaadf]"
)
_IS_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_OPERATOR: Final = "-?[%&*+/<=>^|~]+"
_WORD: Final = re.compile(rf"[0-9_a-z\x80-\U0010ffff]+|{_OPERATOR}")
"""Words of a folded text, as in `minhash.cpp`: other characters than ASCII are letters."""
_FOREIGN: Final = re.compile(rb"([\x80-\xff]\S*)")
"""The rest of a string between blanks, from its first character that is not ASCII."""


# Marks above and below letters that writers may omit: accents of Latin, Greek and Cyrillic,
# points of Hebrew, Arabic and Syriac, and variation selectors; not the stroke of ≠ and ∉.
_OPTIONAL_MARKS: Final = re.compile(
    f"[\u0300-\u0337\u0339-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a\u0897-\u08ff\ufb1e\ufe00-\ufe0f{_INVISIBLES}\u200b]+"
)
_VIETNAMESE: Final = re.compile("[\u0309\u031b\u0323]|[\u0302\u0306][\u0300\u0301\u0303]")
"""Marks of Vietnamese alone, where accents are tones: horn, hook, dot below, double marks."""
_MOST_MARKS: Final = 30
"""Maximum combining marks in a row."""


# Built when the first text needs it: reading the categories of Unicode takes a tenth of a second.
@cache
def _foreign_words() -> tuple[re.Pattern[str], re.Pattern[str]]:
    r"""Return the patterns of a letter, and of a word that may have other characters than ASCII.

    Letters include digits, and marks (Indic vowel signs) that `\w` does not match. A character of a
    script without blanks is a word, together with its marks; so is a mathematical symbol.
    """

    def character_of(*categories: str) -> str:
        # a class with astral characters is slow
        astral = rf"(?={_IS_ASTRAL.pattern})[{_class_of(_ASTRAL, *categories)}]"
        return f"(?:[{_class_of(_BASIC, *categories)}]|{astral})"

    mark = character_of("Mn", "Mc")
    letter = rf"(?!{_UNSPACED.pattern})(?:\w|{mark})"
    operator = rf"(?:{_OPERATOR}|{character_of('Sm')}){mark}*"
    words = rf"{_UNSPACED.pattern}{mark}*|(?:{letter})+|{operator}"
    return re.compile(letter), re.compile(words)


@cache
def _mark_runs() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a fast pattern that a text with too many marks in a row has, and the exact pattern."""
    marks = _class_of(_BASIC, "Mn", "Mc")
    all_marks = marks + _class_of(_ASTRAL, "Mn", "Mc")
    possible = re.compile(rf"[{marks}\U00010000-\U0010ffff]{{{_MOST_MARKS + 1}}}")
    return possible, re.compile(f"([{all_marks}]{{{_MOST_MARKS}}})[{all_marks}]+")


def cut_marks(text: str) -> str:
    """Return a text with at most 30 marks in a row: Unicode puts more in order in quadratic time.

    30 are allowed by the stream-safe text format (Unicode Standard Annex 15, section 13).
    """
    if len(text) <= _MOST_MARKS or text.isascii():
        return text
    possible, runs = _mark_runs()
    return runs.sub(r"\1", text) if possible.search(text) else text


Changes: TypeAlias = Counter[str]
"""Characters that a normal form dropped or rewrote, by type of change."""
NormalForm: TypeAlias = Literal["prose", "code", "sequence", "none"]
"""Name of a normal form: see `normalize_as`."""


def normalize(text: str) -> str:
    r"""Return the stored form of prose.

    It is NFC with `\n` line ends, no control character but tab, no trailing blanks, at most one
    empty line in succession, and at most 30 combining marks.

    Soft hyphens and word joiners are removed. A zero-width space is removed between letters of
    scripts that use blanks; in Khmer, Burmese, Thai and Lao it ends a word. Lone surrogates become
    U+FFFD, so the result is always valid UTF-8. Superscripts, ligatures and full-width forms stay
    (NFC, not NFKC). Normalizing twice changes nothing more.

        "cafe\u0301 \r\n\r\n\r\nau\x00 lait " -> "café\n\nau lait"
    """
    return _normalize_prose(text, Counter())


def normalize_as(form: NormalForm, text: str) -> tuple[str, Changes]:
    """Return the stored form of a text, and the number of changes by type.

    `prose` is the form of `normalize`. `code` changes nothing that a compiler, a diff or a string
    literal can see: it drops NUL and a byte order mark at the start, and turns Windows line ends
    into newlines where a text has no others. `sequence` is for DNA and proteins: capital letters
    without white space and controls, so that masked regions (lower case) and line ends change no
    token. `none` only replaces invalid Unicode, as `code` does.
    """
    changes: Changes = Counter()
    return _FORMS[form](text, changes), +changes


def _normalize_characters(text: str, changes: Changes) -> str:
    r"""Return the text in NFC, with `\n` line ends, without controls and invisible characters."""
    if _RARE_CHARACTERS.search(text):
        text, changes["line_ends"] = _LINE_END.subn("\n", text)
        changes["line_ends"] += text.count("\u2029")
        text = text.replace("\u2029", "\n\n")
        text = _count_lost(changes, "control_characters", text, _TERMINAL.sub("", text))
        changes["control_characters"] += len(_CONTROL.findall(text))
        text = _CONTROL.sub("", text.translate(_LEGACY))
        text = _replace_surrogates(text, changes)
        joined = _SOFT_CUT.sub(lambda cut: cut[1] + ("\n" if cut[2] else ""), text)
        text = _count_lost(changes, "invisible_characters", text, _INVISIBLE.sub("", joined))
    # after dropping controls, which may have separated a letter and its accent
    text = _compose(text, changes)
    if "\u200b" in text:
        spaced = _ZERO_WIDTH_SPACES.sub(_keep_zero_width_spaces, text)
        text = _compose(_count_lost(changes, "invisible_characters", text, spaced), changes)

    return text


def normalize_field(form: NormalForm, text: str) -> str:
    """Return a field of a row in a stored form.

    `prose` and `sequence` only compose and clean characters: case, blanks and empty lines stay.
    A field may be a part of a text, a label or an id: blanks around it may belong to it.
    """
    if text.isascii() and not _RARE_CHARACTERS.search(text):
        return text
    return (_normalize_characters if form in ("prose", "sequence") else _FORMS[form])(
        text, Counter()
    )


def _normalize_prose(text: str, changes: Changes) -> str:
    text = _normalize_characters(text, changes)
    if _BLANK_BEFORE_NEWLINE.search(text):
        # line by line, because `[ \t]+$` takes quadratic time in a long run of blanks
        stripped = "\n".join([line.rstrip() for line in text.split("\n")])
        text = _count_lost(changes, "blanks_at_line_ends", text, stripped)
    if "\n\n\n" in text:
        text = _count_lost(changes, "blank_lines", text, _BLANK_LINES.sub("\n\n", text))
    return _count_lost(changes, "blanks_around_text", text, text.strip())


def _normalize_code(text: str, changes: Changes) -> str:
    text = _replace_surrogates(text, changes)
    text = _count_lost(changes, "byte_order_mark", text, text.removeprefix("\ufeff"))
    text = _count_lost(changes, "control_characters", text, text.replace("\0", ""))
    # a patch for a file with Windows line ends has both kinds, and applies only with both
    if 0 < text.count("\r\n") == text.count("\n") == text.count("\r"):
        text = _count_lost(changes, "line_ends", text, text.replace("\r\n", "\n"))
    return text


def _normalize_sequence(text: str, changes: Changes) -> str:
    text, changes["control_characters"] = _CONTROL.subn("", _replace_surrogates(text, changes))
    visible = _count_lost(changes, "white_space", text, "".join(text.split()))
    changes["lower_case"] = sum(map(visible.count, ascii_lowercase))
    return visible.translate(_CAPITALS)


def _count_lost(changes: Changes, name: str, before: str, after: str) -> str:
    """Return a text after a change, which is counted by the characters that it lacks."""
    changes[name] += len(before) - len(after)
    return after


def _replace_surrogates(text: str, changes: Changes) -> str:
    """Return the text as valid Unicode, with U+FFFD for lone surrogates."""
    text, changes["surrogates"] = _SURROGATE.subn("\ufffd", text)
    return text


def _compose(text: str, changes: Changes) -> str:
    """Return the text in NFC, with at most 30 marks in a row."""
    cut = _count_lost(changes, "combining_marks", text, cut_marks(text))
    composed = unicodedata.normalize("NFC", cut)

    if composed is not cut and composed != cut:
        shorter = len(cut) - len(composed)
        # a sign with a single canonical form, such as the Angstrom sign, keeps its length
        changes["composed_characters"] += (
            shorter if shorter > 0 else sum(map(operator.ne, cut, composed))
        )
        composed = cut_marks(composed)  # some characters become several marks

    return composed


def compose(text: str) -> str:
    """Return the text in NFC, with at most 30 marks in a row."""
    return _compose(text, Counter())


_FORMS: Final[Mapping[NormalForm, Callable[[str, Changes], str]]] = {
    "prose": _normalize_prose,
    "code": _normalize_code,
    "sequence": _normalize_sequence,
    "none": _replace_surrogates,
}


_WIDE_MARKS: Final = re.compile(
    "[\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)


CHARACTERS_PER_WORD: Final = 3
"""Characters per word in scripts without blanks; Chinese has 1.5, Thai and Khmer 4 to 5."""


def count_characters_without_blanks(text: str) -> int:
    """Count the characters of scripts without blanks between words."""
    return 0 if text.isascii() else _WITHOUT_BLANKS.subn("", text)[1]


_ETHIOPIC_BLANK: Final = "\u1361"
"""The mark between words in older Ethiopic texts."""


def split_at_blanks(text: str) -> list[str]:
    """Return the strings between white space, or between the word marks of Ethiopic texts."""
    return text.replace(_ETHIOPIC_BLANK, " ").split()


def count_words(text: str) -> int:
    """Count the words of a text: strings between blanks.

    In scripts without blanks, three characters count as a word.

    "two words" has 2, "河水从清晨就开始上涨" has 3.
    """
    alone = count_characters_without_blanks(text)
    if not alone:
        return len(split_at_blanks(text))
    spaced = sum(not _WITHOUT_BLANKS.match(run) for run in split_at_blanks(text))
    return spaced + max(1, alone // CHARACTERS_PER_WORD)


def is_written_without_blanks(character: str) -> bool:
    """Return whether a character needs no blank: of a script without blanks, or a CJK mark."""
    return (
        bool(character)
        and (_WITHOUT_BLANKS.match(character) or _WIDE_MARKS.match(character)) is not None
    )


def _keep_zero_width_spaces(spaces: re.Match[str]) -> str:
    """Return the zero-width spaces, or "" between two letters of scripts that use blanks."""
    text = spaces.string
    start = spaces.start()
    end = spaces.end()
    before = text[start - 1 : start]
    after = text[end : end + 1]

    inside = (
        before
        and after
        and unicodedata.category(before)[0] in "LM"
        and unicodedata.category(after)[0] == "L"
    )

    return (
        ""
        if inside and not _WITHOUT_BLANKS.match(before) and not _WITHOUT_BLANKS.match(after)
        else spaces[0]
    )


def join_lines(lines: Sequence[str]) -> str:
    """Return the stored form of a text of these lines, which must be stripped, without controls."""
    text = compose("\n".join(lines))
    return (_BLANK_LINES.sub("\n\n", text) if "\n\n\n" in text else text).strip()


def is_unspaced(character: str) -> bool:
    """Return whether a character is a letter or spacing mark of a script without blanks."""
    return _UNSPACED.fullmatch(character) is not None and unicodedata.category(character) in (
        "Lo",
        "Lm",
        "Nl",
        "Mc",
    )


def match_words(text: str) -> list[str]:
    """Return the words of the match form.

    They are casefolded, without optional marks; scripts without blanks are split by character. A
    run of letters and digits is a word (`1,024` has two), and so is a run of operator characters
    (`+=`), and each other mathematical symbol. No word crosses a blank.

    "Die Größe: 1,024 漢字 += 3" -> ["die", "grosse", "1", "024", "漢", "字", "+=", "3"]
    """
    return find_words(fold(text))


def find_words(folded: bytes) -> list[str]:
    """Return the words of a folded text."""
    return _WORD.findall(folded.decode(errors="surrogatepass"))


def fold(text: str) -> bytes:
    """Return a text in UTF-8 with its words in their match form.

    Blanks and ASCII punctuation that is no operator separate them. Folding again may change them:
    tones of Vietnamese are kept where another word of the string shows the language.
    """
    lower = text.encode(errors="surrogatepass").lower()
    if text.isascii():
        return lower
    parts = _FOREIGN.split(lower)
    parts[1::2] = map(_FOLDED.__getitem__, parts[1::2])
    return b"".join(parts)


def _fold_part(part: bytes) -> bytes:
    text = part.decode(errors="surrogatepass").casefold()
    folded = unicodedata.normalize("NFD", cut_marks(text))
    if not _VIETNAMESE.search(folded):
        folded = _OPTIONAL_MARKS.sub("", folded)

    letter, word = _foreign_words()
    words = word.findall(folded)
    # letters continue the word before the part
    separated = words if letter.match(folded) else ["", *words]
    return " ".join(separated).encode(errors="surrogatepass")


class PartCache(dict[bytes, bytes]):
    """Results of a function for short parts of texts: longer ones rarely recur."""

    def __init__(self, function: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, part: bytes) -> bytes:
        value = self._function(part)
        if len(part) <= 64:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[part] = value
        return value


_MOST_CACHED: Final = 1 << 17
_FOLDED: Final = PartCache(_fold_part)
