"""Encode texts word by word with a cache, two to three times as fast as the library alone.

It serves tokenizers that split texts into words like GPT-2's.
"""

import re
from array import array
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT, byte_alphabet, split_text

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LETTERS: Final = (
    "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af\u0388-\u038a\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u05d0-\u05ea"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fea\uac00-\ud7a3"
)
_MARKS: Final = "\xab\xbb\u2013\u2014\u2018-\u201d\u2026"
"""frequent punctuation marks beyond ASCII"""
_SIGN: Final = f"\0-\x08\x0e-\x1f!-/:-@[-`{{-\x7f{_MARKS}"
_NO_RARE: Final = f"(?![^\0-\x7f{_MARKS}{_LETTERS}])"
WORDS: Final = re.compile(
    f"'(?:[sdmt]|ll|ve|re){_NO_RARE}| ?[{_LETTERS}]++{_NO_RARE}| ?[0-9]++{_NO_RARE}|(?!'[a-z]) "
    f"?[{_SIGN}]++{_NO_RARE}"
    f"|[{_SPACE}]+(?![^{_SPACE}])| ?[^{_SPACE}]+|[{_SPACE}]+"
)
"""GPT-2's words for frequent characters; for others the text between white space, which may hold
several words. The matches cover a text, and no token crosses their bounds."""
_CACHED_WORDS: Final = 1 << 18
_MOST_CACHED_CHARACTERS: Final = 64


def has_byte_level_words(spec: Mapping[str, Any], special: Collection[str]) -> bool:
    """Return whether a `tokenizer.json` splits texts like GPT-2's and keeps all bytes of a text.

    `special` pieces never occur in text.
    """
    level = spec.get("pre_tokenizer") or {}
    model = spec["model"]
    as_gpt2 = (
        level.get("type") == "ByteLevel"
        and level.get("use_regex", True)
        and not level["add_prefix_space"]
    )

    keeps_text = not spec.get("normalizer") and all(
        entry["content"] in special for entry in spec["added_tokens"]
    )
    return bool(
        as_gpt2
        and keeps_text
        and model["type"] == "BPE"
        and byte_alphabet().keys() <= model["vocab"].keys() - special
    )


class ByteLevelWords:
    """Encodes each distinct word once and caches short words; very long words are split."""

    def __init__(self, library: tokenizers.Tokenizer, dtype: Any) -> None:
        self._library = library
        self._dtype = np.dtype(dtype)
        self._cache: dict[str, bytes] = {}

    def encode(self, text: str) -> NDArray[Any]:
        """Return the ids of a text."""
        if len(self._cache) > _CACHED_WORDS:
            self._cache.clear()
        words = WORDS.findall(text)
        if len(text) > ENCODING_CUT and max(map(len, words)) > ENCODING_CUT:
            words = [part for word in words for part in split_text(word, ENCODING_CUT)]

        # encode the words that are not cached; long ones are not added
        new = set(words).difference(self._cache)
        long = [word for word in new if len(word) > _MOST_CACHED_CHARACTERS]
        short = list(new.difference(long))
        self._cache.update(zip(short, self._encode(short), strict=True))
        for word in long:
            (self._cache[word],) = self._encode([word])
        ids = b"".join(map(self._cache.__getitem__, words))
        for word in long:
            del self._cache[word]
        return np.frombuffer(ids, self._dtype)

    def _encode(self, words: list[str]) -> list[bytes]:
        rows = self._library.encode_batch_fast(words, add_special_tokens=False) if words else []
        return [array(self._dtype.char, row.ids).tobytes() for row in rows]
