"""Exponents of markup: text must mark raised numbers, or 10 to the 6th becomes 106."""

import re
from typing import Final

_EXPONENT: Final = re.compile(r"[+\-\u2212]?\d{1,3}")
_BASE: Final = re.compile(r"(?:\d|(?:^|[\d\s/·×(])(?:[kcmdµμn]?m|k?g|s|ft|in|yd|mi|km|Hz|K|mol))$")
_BASE_CHARACTERS: Final = 8
"""Characters of the longest base, and one before it."""


def is_exponent(raised: str, before: str) -> bool:
    """Return whether a raised text is an exponent of the number or unit before it."""
    return bool(_EXPONENT.fullmatch(raised) and _BASE.search(before[-_BASE_CHARACTERS:]))
