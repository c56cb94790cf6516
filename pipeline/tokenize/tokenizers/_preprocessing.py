"""Preprocessing of text by publishers before their SentencePiece model, with the origin of each character."""

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
"""Post-processing: split a piece such as `▁2010,` into the pieces of `2010` and `,`."""
_WORD: Final = re.compile(r"\S+")
_QUOTES: Final = re.compile("``|''")


def _strip_accents(text: str) -> str:
    return "".join([c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)])


STEPS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "white_space": lambda text: " ".join(text.split()),
        "quotes": lambda text: text.replace("``", '"').replace("''", '"'),
        "accents": _strip_accents,
        "lower": str.lower,
    }
)
"""`white_space` normalizes to single spaces, `quotes` turns `` and '' into ", `accents` is NFKD without marks."""


def prepare(text: str, steps: Iterable[str]) -> str:
    r"""Return the text after the steps, which are names of `STEPS`, in order.

    Example: white_space, quotes, accents and lower turn " Ünï\n``x''" into 'uni "x"'.
    """
    for step in steps:
        if step in STEPS and not (step == "accents" and text.isascii()):
            text = STEPS[step](text)
    return text


def sources(text: str, steps: Sequence[str]) -> NDArray[np.int64]:
    """Return the index in the text of each character of the prepared text, [characters] int64."""
    if "white_space" not in steps:
        return np.array(_sources(text, 0, steps), np.int64)
    indices: list[int] = []
    end = 0
    for word in _WORD.finditer(text):
        if end:
            indices.append(end)
        end = word.end()
        indices += _sources(word[0], word.start(), steps)
    return np.array(indices, np.int64)


def _sources(text: str, start: int, steps: Sequence[str]) -> list[int]:
    indices = list(range(start, start + len(text)))
    for step in steps:
        if step == "quotes" and ("``" in text or "''" in text):
            dropped = {mark.start() + 1 for mark in _QUOTES.finditer(text)}
            indices = [index for number, index in enumerate(indices) if number not in dropped]
        elif step == "accents" and not text.isascii():
            indices = [index for index, c in zip(indices, text, strict=True) for _ in _strip_accents(c)]
        elif step == "lower" and not text.isascii():
            indices = [index for index, c in zip(indices, text, strict=True) for _ in c.lower()]
        if step in STEPS and step != "white_space":
            text = STEPS[step](text)
    return indices


def normalizers_of(steps: Iterable[str]) -> list[Any]:
    """Return the steps as normalizers of the `tokenizers` library; its `lower` ignores final sigmas."""
    converted: list[Any] = []
    for step in steps:
        if step == "white_space":
            blank = _class(str.isspace)
            converted.append(normalizers.Replace(tokenizers.Regex(rf"\A{blank}+|{blank}+\z"), ""))
            converted.append(normalizers.Replace(tokenizers.Regex(f"{blank}+"), " "))
        elif step == "quotes":
            converted += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        elif step == "accents":
            marks = _class(lambda character: unicodedata.combining(character) > 0)
            converted += [normalizers.NFKD(), normalizers.Replace(tokenizers.Regex(marks), "")]
        elif step == "lower":
            converted.append(normalizers.Lowercase())
    return converted


def _class(holds: Callable[[str], bool]) -> str:
    """Return the regular expression class of the characters for which a function is true."""
    codes = {code for code in range(sys.maxunicode + 1) if holds(chr(code))}
    first = sorted(code for code in codes if code - 1 not in codes)
    last = sorted(code for code in codes if code + 1 not in codes)
    return "[" + "".join(f"\\x{{{start:X}}}-\\x{{{end:X}}}" for start, end in zip(first, last, strict=True)) + "]"
