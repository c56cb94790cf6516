"""Split sentences by rules: marks, quotes, abbreviations, initials, ordinals, paragraphs."""

import re
from functools import cache
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.language_codes import base_language
from clozeline.pipeline.text.sentence_marks import (
    ARMENIAN_COLON,
    BURMESE_COMMA,
    DOUBLE_BLANK,
    GREEK_QUESTION,
    OTHER_MARKS,
    SENTENCE_TERMINAL,
)
from clozeline.pipeline.text.sentences import SentenceSplitter
from clozeline.pipeline.text.sentences._language_rules import LanguageRules, find_rules
from clozeline.pipeline.text.sentences.phrases import Phrases

_IS_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_BASIC_MARKS: Final = SENTENCE_TERMINAL[: SENTENCE_TERMINAL.index("\U00010a56")]
"""The marks of the Basic Multilingual Plane."""

_WITHOUT_MARKS: Final = ("th", "lo")
"""Languages whose texts are split into phrases."""

# Marks that need white space after them, because numbers, names and abbreviations have them too.
# All others end a sentence alone: texts in their scripts omit the blank.
_SPACED = ".!?…‽؟\u061d\u061e։\u2024\u203c\u2047-\u2049\u2e2e᙮"
# French and Khmer put a (narrow, no-break) space before the closing guillemet. German closes with “
# and with «, which open quotations of Chinese. Informal English puts a blank before a closing
# bracket.
# Encyclopedias put the numbers of their sources behind the mark: `end.[12] Next`.
_SOURCES: Final = r"(?:\[\w{1,4}\])*+"
_QUOTES: Final = "\"'”’»)\\]}）】」』》〉］｝"
_CLOSERS: Final = rf"(?:[ \u00a0\u202f]?»|[{_QUOTES}])*+{_SOURCES}"
_SPACED_CLOSERS: Final = rf"(?:[ \u00a0\u202f]?»|[{_QUOTES}“‘«])*+{_SOURCES}(?: [)\]](?=\s))?+"
_OWN_MARKS: Final = {"el": GREEK_QUESTION, "hy": ARMENIAN_COLON}
"""Marks of single languages, which need white space behind them."""
_WIDE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Letters of Chinese and Japanese, between which no blank follows a `?`."""


@cache
def _candidate_pattern(astral: bool, own_marks: str) -> re.Pattern[str]:
    """Return the pattern of possible ends of sentences.

    It starts with a single class, so that the engine skips from mark to mark; look-behinds then
    distinguish the cases. The second look-behind avoids trying a run of marks again at each of its
    characters. Classes with astral characters are slow, and used only for texts that have some.
    """
    spaced = _SPACED + own_marks
    terminal = SENTENCE_TERMINAL if astral else _BASIC_MARKS
    alone = rf"(?![{spaced}{BURMESE_COMMA}])[{terminal}{OTHER_MARKS}｡]"
    return re.compile(
        rf"[{terminal}{OTHER_MARKS}{spaced}{DOUBLE_BLANK[0]}｡\n:;=*_](?:"
        rf"(?<=[{spaced}])(?<![{spaced}][{spaced}])(?P<more>[{spaced}]*+){_SPACED_CLOSERS}(?=\s)"
        rf"|(?:(?<={alone})|(?<={DOUBLE_BLANK}))(?:[{spaced}]|{alone})*+{_CLOSERS}"
        rf"|(?<=[{_WIDE}][!?])[!?]*+{_CLOSERS}(?=[{_WIDE}「『“‘《（])"
        r"|(?<=\n)[^\S\n]*+\n"
        # before a capital: emoticons, rows of stars or lines, and marks without a blank behind them
        r"|(?P<sign>(?:(?<=\s[:;=])-?[()DPp]|(?<![*_][*_])(?<=[*_])[*_]{2,}+)(?=\s)"
        r"|(?<=[^\W_][.!?…])[.!?…]++(?=[^\W\d_]))"
        r")"
    )


_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*+\n")
_OPENING: Final = "\"'“‘‹«„‚([{¿¡*_#–—-•・「『（【《〈 \t\u00a0\u202f"
_CONTINUING: Final = ",;:)]}%/=<>+.!?…‽؟։᙮"
_NEXT: Final = re.compile(rf"(?:,,)?+[{re.escape(_OPENING)}§¶№]*+(?P<word>(?:[^\W_]++\.?+)?+)")
"""The next word, with its full stop: `L. 121-1` opens no sentence as `L'homme` does."""
_DATE: Final = re.compile(r"\.[^\S\n]+\d{1,2}\.[^\S\n]*+(.?)")
"""The second number of a date, `2011. 5. 3.` or `3. 5. 2011`, and the character behind it."""
_NUMBER: Final = re.compile(r"\d|[IVXLC]{2,}\b|[A-Z]\.")
"""A number of what an abbreviation counts: `art. 5`, `vol. II`, `art. L. 121-1`."""
_LONGEST_WORD: Final = 40
_LONGEST_TITLE: Final = 30
_LONG_WORD: Final = re.compile(r"[^\W\d_]{4}\Z")
_ROMAN: Final = re.compile(r"[IVXLC]{2,}")
_SPACED_LETTERS: Final = re.compile(r"(?<![^\W_])(?:[^\W\d_]\.[ \u00a0\u202f]){1,3}[^\W\d_]\Z")
_INITIAL: Final = re.compile(r"[^\W\d_]\Z|(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}\Z")


def _is_inside(text: str, match: re.Match[str]) -> bool:
    """Return whether marks stand inside a wide number (３．５) or a title (《去吧！爸爸》)."""
    start, end = match.span()
    if text[start] == "．":
        return text[end : end + 1].isdecimal()
    opened = text.rfind("《", max(0, start - _LONGEST_TITLE), start)
    return opened >= 0 and text.find("》", opened, end + _LONGEST_TITLE) >= end


def _fold(word: str) -> str:
    """Return a word as the lists have it: without its full stop, and an article (`L'art.`)."""
    lower = word.lower().rstrip(".")
    return lower[max(lower.rfind("'"), lower.rfind("’")) + 1 :]


class Regex(SentenceSplitter):
    """Splits after a mark that ends a sentence, and at every empty line.

    A full stop does not end a sentence before a lower-case letter or a comma, nor after a title, an
    initial, an item number or a number of a date, nor (German, Turkish, Hungarian, Croatian and
    others) an ordinal. Question and exclamation marks do so before a lower-case letter, unless a
    quotation ends with them. Emoticons, rows of stars, and several marks without a blank behind
    them end a sentence before a capital. Closing quotes and brackets belong to the mark before
    them. Marks that are also used in numbers and names need a space behind them; those of Chinese,
    Japanese, Hindi, Urdu, Amharic, Burmese, Khmer and others do not. `_language_rules.py` has the
    abbreviations of 30 languages. Thai and Lao are split into phrases. The time is linear in the
    length of the text.

    Example:
        "Dr. No met J. R. Smith. “Hi!” he said. 3.5 km." starts at 0, 24 and 39.
    """

    VERSION = 6

    @config_class
    class Options:
        informal: bool = False
        """a full stop after a word of four or more letters ends a sentence before a lower-case
        letter too"""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._phrases = Phrases(Phrases.Options())

    def starts(self, text: str, language: str) -> list[int]:
        """Return the character offset of each sentence; subtags of the language are ignored."""
        if not text:
            return []
        language = base_language(language)
        if language in _WITHOUT_MARKS:
            return self._phrases.starts(text, language)

        rules = find_rules(language)
        first = len(text) - len(text.lstrip())
        last = len(text.rstrip())
        starts = [0]
        own_marks = _OWN_MARKS.get(language, "")
        candidates = _candidate_pattern(_IS_ASTRAL.search(text) is not None, own_marks)
        for match in candidates.finditer(text, first, last):
            if (start := match.end()) <= starts[-1]:
                continue  # white space behind the last sentence
            while start < last and text[start].isspace():
                start += 1
            if start < last and self._ends(text, match, starts[-1], start, rules):
                starts.append(start)

        return starts

    def splits_phrases(self, language: str) -> bool:
        return base_language(language) in _WITHOUT_MARKS

    def _ends(
        self, text: str, match: re.Match[str], begin: int, start: int, rules: LanguageRules
    ) -> bool:
        """Return whether `match` ends the sentence from `begin`; the text continues at `start`."""
        if match["sign"] is not None:
            return text[start].isupper()
        if text[match.end() - 1] in "」』" and text.startswith(("と", "って"), match.end()):
            return False  # 「はい。」と言った
        if match["more"] is None:
            return not _is_inside(text, match)
        if _PARAGRAPH.search(text, match.end(), start):
            return True

        following = _NEXT.match(text, start, start + _LONGEST_WORD)
        word = following["word"] if following else ""
        if not word:
            return text[start] not in _CONTINUING
        mark = text[match.start()]

        if word[0].islower():
            if mark in "?!":  # "really? yes", but not after a quotation, and not "ja? – sagte er"
                return not match.group().strip("?!") and text[start] not in "-–—"
            is_long = _LONG_WORD.match(text, max(0, match.start() - 4), match.start())
            if not (self.options.informal and match.group() == "." and is_long):
                return False

        if mark != "." or match["more"]:
            return True
        return self._full_stop_ends(text, begin, match.start(), word, rules)

    def _full_stop_ends(
        self, text: str, begin: int, mark: int, following: str, rules: LanguageRules
    ) -> bool:
        before = text[max(begin, mark - _LONGEST_WORD) : mark]
        words = before.split()
        if not words or before[-1].isspace():
            return True
        word = words[-1].lstrip(_OPENING)
        previous = words[-2] if len(words) > 1 else ""
        opens = following.lower() in rules.openers

        if word.isdecimal():
            if _fold(previous) in rules.numeric:
                return True  # Abb. 3.
            item = not previous or before[: -len(words[-1])].rstrip(" \t").endswith("\n")
            if item and len(word) <= 3:
                return False
            date = _DATE.match(text, mark)
            if date and not date[1].isupper():
                return False
            ordinal = rules.ordinals or (previous[-1:] == "." and previous[:-1].isdecimal())
            return opens or not (ordinal and len(word) <= 2)
        if rules.ordinals and _ROMAN.fullmatch(word):
            return opens

        lower = _fold(word)
        if len(word) == 1:
            if previous.endswith(("°", "º")):
                return True
            if spaced := _SPACED_LETTERS.search(before):  # z. B.
                lower = re.sub(r"\s", "", spaced[0]).lower()
        if lower in rules.ends and (len(lower) > 1 or word.islower()):
            return True
        if lower in rules.never:
            return False
        if "." in lower and all(part in rules.never for part in lower.split(".")):
            return False  # names of letters
        if lower in rules.numeric and _NUMBER.match(following):
            return False
        known = lower in rules.maybe or word in rules.maybe
        if known or _INITIAL.match(word):
            return opens and (known or len(word) > 1)
        return True
