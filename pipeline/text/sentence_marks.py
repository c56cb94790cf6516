"""Marks that end sentences in all scripts: one table for filters and sentence splitters."""

import re
from typing import Final

from clozeline.pipeline.text.language_codes import base_language

SENTENCE_TERMINAL: Final = (
    "!.?\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a"
    "\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab"
    "\u1b4e\u1b4f\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d-\u1b7f\u1c3b\u1c3c\u1c7e\u1c7f\u2024\u203c\u203d"
    "\u2047-\u2049\u2cf9-\u2cfb\u2e2e\u2e3c\u2e53\u2e54\u2e60\u2e61\u3002\ua4ff\ua60e\ua60f\ua6f3"
    "\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe12\ufe15"
    "\ufe16\ufe52\ufe56\ufe57\uff01\uff0e\uff1f\uff61\U00010a56\U00010a57\U00010f55-\U00010f59"
    "\U00010f86-\U00010f89\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5"
    "\U000111c6\U000111cd\U000111de\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9"
    "\U000113d4\U000113d5\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641"
    "\U00011642\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c"
    "\U00011c41\U00011c42\U00011ef7\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f\U00016af5"
    "\U00016b37\U00016b38\U00016b44\U00016d6e\U00016d6f\U00016e98\U0001bc9f\U0001da88"
)
"""Unicode's property Sentence_Terminal (UAX 44, version 17), as the inside of a character class."""
OTHER_MARKS: Final = "\u0f0d-\u0f11\u05c3"
"""Marks that end sentences without the property Sentence_Terminal: Tibetan shads, and the sof
pasuq of Hebrew verses."""
BURMESE_COMMA: Final = "\u104a"
"""A Sentence_Terminal that separates clauses."""
GREEK_QUESTION: Final = ";"
"""Normal form C makes the Greek question mark, U+037E, a semicolon."""
ARMENIAN_COLON: Final = ":"
"""Keyboards without the Armenian full stop, U+0589, give a colon. Other text has colons, too, so
that only a blank and a capital after one make it a mark."""
DOUBLE_BLANK: Final = "\u1361\u1361"
"""Two Ethiopic marks of a word's end, typed for the full stop."""
CLOSING_QUOTES: Final = "\"'”’»«“›‹」』"
"""Quotes that may follow the mark of a sentence."""
_NO_MARKS: Final = re.compile("[\u0e00-\u0eff\u1950-\u19df\uaa80-\uaadf]")
"""Scripts without marks at the end of sentences: Thai, Lao, Tai Le, New Tai Lue, Tai Viet."""
_MARK: Final = f"(?!{BURMESE_COMMA})[…{SENTENCE_TERMINAL}{OTHER_MARKS}]"
_IS_MARK: Final = re.compile(_MARK)
_ENDS_INSIDE: Final = re.compile(
    rf"{_MARK}[{CLOSING_QUOTES})\]]*[^\S\n]+\S|[。！？][{CLOSING_QUOTES}]*\S|{_NO_MARKS.pattern}"
)


def is_sentence_mark(character: str, language: str) -> bool:
    """Return whether a character ends sentences of a language, given by its ISO 639 code."""
    return _IS_MARK.match(character) is not None or (
        character == GREEK_QUESTION and base_language(language) == "el"
    )


def ends_sentence(line: str, language: str) -> bool:
    """Return whether a line ends like a sentence: in a mark, also before closing quotes.

    A line whose last letter is of a script without such marks, like Thai, always does.
    """
    end = line.rstrip(CLOSING_QUOTES + " \u00a0\u202f\u200b")
    if not end:
        return False
    return (
        is_sentence_mark(end[-1], language)
        or end.endswith(DOUBLE_BLANK)
        or _NO_MARKS.match(end[-1]) is not None
    )


def has_sentence_end_inside(text: str) -> bool:
    """Return whether a sentence ends inside of a line of a text; always in Thai, without marks."""
    return _ENDS_INSIDE.search(text) is not None
