"""Language codes (ISO 639), and suggestions for mistaken ones."""

import difflib
import re
from collections.abc import Collection
from typing import Final

_CODE: Final = re.compile(r"[a-z]{2,3}([-_]\w+)*")


def require_code(key: str, word: str | None) -> None:
    """Raise ValueError if a language is not given as a code, such as by its name."""
    if word is not None and not _CODE.fullmatch(word):
        hint = "" if (code := _find_code(word)) is None else f"; did you mean '{code}'?"
        raise ValueError(f"{key}: expected a language code such as en or de, got '{word}'{hint}")


def parse_code(value: object) -> str | None:
    """Return a value as a language code; None for anything else, such as a name."""
    word = value.strip() if isinstance(value, str) else ""
    head, mark, rest = word.partition("_" if "_" in word else "-")
    code = head.lower() + mark + rest
    return code if _CODE.fullmatch(code) else None


def suggest_codes(word: str, known: Collection[str]) -> str:
    """Return the end of an error message: the known code that a word means, or similar codes."""
    if (code := _find_code(word)) in known:
        return f"did you mean '{code}'?"
    return f"known: {', '.join(difflib.get_close_matches(word, known) or sorted(known))}"


def _find_code(name: str) -> str | None:
    """Return the code of a language from its English name or another code, such as `ger`."""
    from babel import Locale  # a slow import, needed for mistakes alone
    from babel.core import get_global

    other_codes = get_global("language_aliases")
    if (code := other_codes.get(name.lower())) is not None:
        return str(code)
    named = Locale("en").languages.items()
    return next((code for code, language in named if language.lower() == name.lower()), None)
