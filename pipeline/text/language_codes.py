"""Language codes (ISO 639), which of them name one language, and suggestions for mistaken ones.

`de`, `deu`, `deu_Latn` and `de-AT` are codes of German; models and records use different ones.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final, Generic, NamedTuple, TypeVar

from clozeline.errors import join_names

_CODE: Final = re.compile(r"[a-z]{2,3}([-_]\w+)*")
_MOST_SHOWN: Final = 5
"""Maximum codes of one language in a suggestion."""


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


class _Code(NamedTuple):
    """The parts of a code: `("zh", "Hant", {"tw"})` of `zho_Hant_TW`."""

    language: str
    """ISO 639-1 code, ISO 639-3 where there is none; of a macrolanguage where it has one"""
    script: str
    """ISO 15924 code, "" if the code has none"""
    varieties: frozenset[str]
    """regions and variants, in lower case"""


_SCRIPT: Final = re.compile("[A-Za-z]{4}")
_HAN: Final = frozenset({"Hani", "Hans", "Hant"})
"""Han, and its simplified and traditional form."""
_WRITTEN_NORWEGIAN: Final = {"nb": "no"}
"""`no` in most models and records; Nynorsk is `nn`."""


@cache
def _read_code(code: str) -> _Code:
    from babel.core import get_global  # a slow import, needed for codes that are not equal

    head, *parts = re.split("[-_]", code)
    alias, *implied = get_global("language_aliases").get(head.lower(), head.lower()).split("_")
    parts = implied + parts
    scripts = [part.title() for part in parts if _SCRIPT.fullmatch(part)]
    varieties = frozenset(part.lower() for part in parts if not _SCRIPT.fullmatch(part))
    language = _WRITTEN_NORWEGIAN.get(alias, alias)
    return _Code(language, scripts[-1] if scripts else "", varieties)


def base_language(code: str) -> str:
    """Return the ISO 639-1 code of a language, 639-3 where there is none: `de` for `deu_Latn`."""
    return _read_code(code).language


def names_language(code: str, wanted: str) -> bool:
    """Return whether a code names what a wanted code names, or a part of it.

    `deu_Latn`, `de-AT` and `de` are parts of `de`, and of `deu_Latn`, since German without a script
    is in Latin. `zho_Hant` is a part of `zh`, and `zh` is none of `zho_Hant`.
    """
    if code == wanted:
        return True
    ours = _read_code(code)
    theirs = _read_code(wanted)
    return (
        ours.language == theirs.language
        and theirs.varieties <= ours.varieties
        and _is_written_in(ours, theirs.script)
    )


def _is_written_in(code: _Code, script: str) -> bool:
    from babel.core import get_global

    if not script:
        return True
    usual = get_global("likely_subtags").get(code.language, "").split("_")
    own = code.script or (usual[1] if len(usual) > 1 else "")
    return own == script or ("Hani" in {own, script} and {own, script} <= _HAN)


T = TypeVar("T")


class LanguageTable(Mapping[str, T], Generic[T]):
    """Entries by language, which each code of the language finds: `deu_Latn` that of `de`.

    The entry of the same code comes first, then the first one that the code is a part of.
    """

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._entries = dict(entries)

    def find_key(self, code: str) -> str | None:
        """Return the code under which a language has its entry; None without one."""
        if code in self._entries:
            return code
        return next((key for key in self._entries if names_language(code, key)), None)

    def __getitem__(self, code: str) -> T:
        if (key := self.find_key(code)) is None:
            raise KeyError(code)
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def suggest_codes(word: str, known: Collection[str]) -> str:
    """Return the end of an error message: the known codes that a word means, or similar codes."""
    code = _find_code(word) or word
    meant = [each for each in sorted(known) if names_language(each, base_language(code))]
    if meant := meant or difflib.get_close_matches(word, known):
        return f"did you mean {' or '.join(map(repr, meant[:_MOST_SHOWN]))}?"
    return f"known: {join_names(known)}"


def _find_code(name: str) -> str | None:
    """Return the code of a language from its English name or another code, such as `ger`."""
    from babel import Locale  # a slow import, needed for mistakes alone
    from babel.core import get_global

    other_codes = get_global("language_aliases")
    if (code := other_codes.get(name.lower())) is not None:
        return str(code)
    named = Locale("en").languages.items()
    return next((code for code, language in named if language.lower() == name.lower()), None)
