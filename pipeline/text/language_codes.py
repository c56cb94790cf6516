"""Language codes (ISO 639), and what a mistaken one may have meant."""

import difflib
import re
from collections.abc import Collection
from typing import Final

_CODE: Final = re.compile(r"[a-z]{2,3}([-_]\w+)*")


def require_code(key: str, word: str | None) -> None:
    """Raise a ValueError where a language is not written as a code, such as by its name."""
    if word is not None and not _CODE.fullmatch(word):
        hint = "" if (code := _find_code(word)) is None else f"; did you mean '{code}'?"
        raise ValueError(f"{key}: expected a language code such as en or de, got '{word}'{hint}")


def parse_code(value: object) -> str | None:
    """Return a value as a language code; None if it is none, such as a name."""
    word = value.strip() if isinstance(value, str) else ""
    head, mark, rest = word.partition("_" if "_" in word else "-")
    code = head.lower() + mark + rest
    return code if _CODE.fullmatch(code) else None


def suggest_codes(word: str, known: Collection[str]) -> str:
    """Return the known code that a word names, or those near it, or all, as the end of a message."""
    if (code := _find_code(word)) in known:
        return f"did you mean '{code}'?"
    return f"known: {', '.join(difflib.get_close_matches(word, known) or sorted(known))}"


def _find_code(name: str) -> str | None:
    """Return the code of a language by its English name, or by another code of it, such as `ger` of ISO 639-2."""
    from babel import Locale  # takes a moment, for mistakes alone
    from babel.core import get_global

    other_codes = get_global("language_aliases")
    if (code := other_codes.get(name.lower())) is not None:
        return str(code)
    named = Locale("en").languages.items()
    return next((code for code, language in named if language.lower() == name.lower()), None)
