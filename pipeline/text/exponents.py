"""Exponents of markup: raised numbers that plain text must mark, or 10 to the 6th becomes 106."""

import re
from typing import Final

_EXPONENT: Final = re.compile(r"[+\-\u2212]?\d{1,3}")
_BASE: Final = re.compile(r"(?:\d|(?:^|[\d\s/·×(])(?:[kcmdµμn]?m|k?g|s|ft|in|yd|mi|km|Hz|K|mol))$")
_BASE_CHARACTERS: Final = 8
"""Characters of the longest base, and the one before it."""


def is_exponent(raised: str, before: str) -> bool:
    """Return whether a raised text is an exponent of what stands before it: a number, or a unit of measurement."""
    return bool(_EXPONENT.fullmatch(raised) and _BASE.search(before[-_BASE_CHARACTERS:]))
