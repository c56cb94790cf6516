"""Changes that publishers make to a text before their SentencePiece model, and where each character comes from."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import normalizers

DIGIT_COMMAS: Final = "digit_commas"
"""A step after the model: a piece such as `▁2010,` becomes the pieces of `2010`, and `,`."""
_WORD: Final = re.compile(r"\S+")
_QUOTES: Final = re.compile("``|''")


def _join(text: str) -> str:
    return " ".join(text.split())


def _quote(text: str) -> str:
    return text.replace("``", '"').replace("''", '"')


def _strip_accents(text: str) -> str:
    return "".join([c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)])


STEPS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"white_space": _join, "quotes": _quote, "accents": _strip_accents, "lower": str.lower}
)
"""`white_space` leaves one space between words, `quotes` makes `` and '' a ", `accents` is NFKD without marks."""


def prepare(text: str, steps: Iterable[str]) -> str:
    r"""Return the text as the model sees it; `steps` are names of `STEPS`, in order.

    Example: white_space, quotes, accents and lower make " Ünï\n``x''" the text 'uni "x"'.
    """
    for step in steps:
        if step in STEPS and not (step == "accents" and text.isascii()):
            text = STEPS[step](text)
    return text


def sources(text: str, steps: Sequence[str]) -> NDArray[np.int64]:
    """Return for each character of the prepared text the place in the text that it comes from, [characters] int64."""
    if "white_space" not in steps:
        return np.array(_sources(text, 0, steps), np.int64)
    places: list[int] = []
    end = 0
    for word in _WORD.finditer(text):
        if end:
            places.append(end)
        end = word.end()
        places += _sources(word[0], word.start(), steps)
    return np.array(places, np.int64)


def _sources(text: str, start: int, steps: Sequence[str]) -> list[int]:
    places = list(range(start, start + len(text)))
    for step in steps:
        if step == "quotes" and ("``" in text or "''" in text):
            dropped = {mark.start() + 1 for mark in _QUOTES.finditer(text)}
            places = [place for number, place in enumerate(places) if number not in dropped]
        elif step == "accents" and not text.isascii():
            places = [place for place, c in zip(places, text, strict=True) for _ in _strip_accents(c)]
        elif step == "lower" and not text.isascii():
            places = [place for place, c in zip(places, text, strict=True) for _ in c.lower()]
        if step in STEPS and step != "white_space":
            text = STEPS[step](text)
    return places


def normalizers_of(steps: Iterable[str]) -> list[Any]:
    """Return the steps as the `tokenizers` library writes them; `lower` does not see a final sigma there."""
    found: list[Any] = []
    for step in steps:
        if step == "white_space":
            blank = _class(str.isspace)
            found.append(normalizers.Replace(tokenizers.Regex(rf"\A{blank}+|{blank}+\z"), ""))
            found.append(normalizers.Replace(tokenizers.Regex(f"{blank}+"), " "))
        elif step == "quotes":
            found += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        elif step == "accents":
            marks = _class(lambda character: unicodedata.combining(character) > 0)
            found += [normalizers.NFKD(), normalizers.Replace(tokenizers.Regex(marks), "")]
        elif step == "lower":
            found.append(normalizers.Lowercase())
    return found


def _class(holds: Callable[[str], bool]) -> str:
    """Return the regular expression of one of the characters for which a function holds."""
    codes = {code for code in range(sys.maxunicode + 1) if holds(chr(code))}
    first = sorted(code for code in codes if code - 1 not in codes)
    last = sorted(code for code in codes if code + 1 not in codes)
    return "[" + "".join(f"\\x{{{one:X}}}-\\x{{{other:X}}}" for one, other in zip(first, last, strict=True)) + "]"
