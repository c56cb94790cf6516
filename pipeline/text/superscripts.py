"""Superscripts of markup: exponents, which text must mark, and references to notes."""

import re
from typing import Final

_EXPONENT: Final = re.compile(r"[+\-\u2212]?\d{1,3}")
_BASE: Final = re.compile(r"(?:\d|(?:^|[\d\s/·×(])(?:[kcmdµμn]?m|k?g|s|ft|in|yd|mi|km|Hz|K|mol))$")
_BASE_CHARACTERS: Final = 8
"""Characters of the longest base, and one before it."""
_RAISED_DIGITS: Final = "¹²³⁰⁴-⁹"
_REFERENCE: Final = re.compile(
    rf"(?i)(?:(?:(?<!\d)\d{{1,3}}(?!\d)\)?|[{_RAISED_DIGITS}*†‡]+|"
    r"[\[(](?:[a-z]+\s)?[\da-z]{1,3}[\])])[\s,;–-]*+)++"
)
_MARK: Final = re.compile(r"(?!.*[$€£¥]\s?[\d,.]*$).*[.,;:?!…”’“»\"。，；：？！」』]$", re.DOTALL)
_MARK_CHARACTERS: Final = 12
"""Characters of a price such as `$1,000.`, whose cents may be raised."""
_RAISED: Final = re.compile(rf"[{_RAISED_DIGITS}]+(?!\w)")


def is_exponent(raised: str, before: str) -> bool:
    """Return whether a raised text is an exponent of the number or unit before it."""
    return bool(_EXPONENT.fullmatch(raised) and _BASE.search(before[-_BASE_CHARACTERS:]))


def is_reference(raised: str, before: str, *, is_link: bool) -> bool:
    """Return whether a raised text refers to a note: a link, or behind a punctuation mark.

    It holds only numbers, letters in brackets or `*†‡`.
    """
    return bool(
        _REFERENCE.fullmatch(raised) and (is_link or _MARK.match(before[-_MARK_CHARACTERS:]))
    )


def drop_references(text: str) -> str:
    """Return a text without raised digits behind punctuation marks: `days.³` is `days.`."""
    if text.isascii():
        return text
    return _RAISED.sub(
        lambda digits: (
            "" if is_reference(digits[0], text[: digits.start()], is_link=False) else digits[0]
        ),
        text,
    )
