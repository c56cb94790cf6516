"""Encode a text chunk by chunk with a cache, for tokenizers none of whose tokens crosses a chunk boundary."""

import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT, byte_alphabet, cut

_SPACE: Final = "\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that no normalizer deletes as a control character."""
_COMPLETE: Final = re.compile(".+", re.DOTALL)
_SPACE_TOO: Final = f"{_SPACE}\v\f\x85"
_LETTERS: Final = (
    "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af\u0388-\u038a\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u05d0-\u05ea"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fea\uac00-\ud7a3"
)
_MARKS: Final = "\xab\xbb\u2013\u2014\u2018-\u201d\u2026"
"""Frequent punctuation marks beyond ASCII."""
_SIGN: Final = f"\0-\x08\x0e-\x1f!-/:-@[-`{{-\x7f{_MARKS}"
_ALONE: Final = f"(?![^\0-\x7f{_MARKS}{_LETTERS}])"


def _between(space: str) -> str:
    """Return the pattern of words with the space before them, and of other white space."""
    return f"[{space}]+(?![^{space}])| ?[^{space}]+|[{space}]+"


SPACED: Final = re.compile(_between(_SPACE))
BYTE_LEVEL: Final = re.compile(
    f"'(?:[sdmt]|ll|ve|re){_ALONE}| ?[{_LETTERS}]++{_ALONE}| ?[0-9]++{_ALONE}|(?!'[a-z]) ?[{_SIGN}]++{_ALONE}"
    f"|{_between(_SPACE_TOO)}"
)
"""GPT-2's words, spelled out for frequent characters: fewer different ones than between white space."""
_CACHED_CHUNKS: Final = 1 << 18
_CHUNK_CHARACTERS: Final = 64

_LOCAL: Final = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
"""Normalizers that change each word on its own."""


def chunk_rule(facts: Mapping[str, Any], bare: Collection[str]) -> tuple[re.Pattern[str], bool]:
    """Return the chunks of a `tokenizer.json` that no token crosses, and whether token bytes are the text's.

    GPT-2's words and words between white space are chunks; any other file is encoded a complete text at a time. `bare`
    pieces never occur in text.
    """
    normalizer, cutters = _steps(facts.get("normalizer")), _steps(facts.get("pre_tokenizer"))
    added = [entry for entry in facts["added_tokens"] if entry["content"] not in bare]
    if [cutter["type"] for cutter in cutters] == ["ByteLevel"] and not normalizer and not added:
        level = cutters[0]
        if level.get("use_regex", True) and not level["add_prefix_space"]:
            has_bytes = byte_alphabet().keys() <= facts["model"]["vocab"].keys() - bare
            return BYTE_LEVEL, facts["model"]["type"] == "BPE" and has_bytes
    is_local = all(step["type"] in _LOCAL for step in normalizer) and all(map(_has_no_space, added))
    if is_local and [cutter["type"] for cutter in cutters] in (["BertPreTokenizer"], ["WhitespaceSplit"]):
        return SPACED, False
    return _COMPLETE, False


def _steps(step: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer one after another."""
    if not step or step["type"] != "Sequence":
        return [step] if step else []
    return [single for part in step.get("normalizers", step.get("pretokenizers")) for single in _steps(part)]


def _has_no_space(entry: Mapping[str, Any]) -> bool:
    """Return whether an added token takes no white space in or around it."""
    content = r"[!-~]+" if entry["normalized"] else r"\S+"
    return not entry["lstrip"] and not entry["rstrip"] and bool(re.fullmatch(content, entry["content"]))


class ChunkEncoder:
    """Encodes each chunk (a match of `chunks`) once and caches short ones; the chunks of a text cover it.

    Very long words are cut, which bounds memory. Without `offsets`, encodings have ids only. The library alone encodes
    .2 to .5 times as many bytes a second.
    """

    def __init__(
        self, library: tokenizers.Tokenizer, chunks: re.Pattern[str], dtype: Any, *, offsets: bool = True
    ) -> None:
        self._chunks, self._dtype, self._offsets = chunks, np.dtype(dtype), offsets
        self._encode = library.encode_batch if offsets else library.encode_batch_fast
        self._cache: dict[str, tuple[bytes, bytes]] = {}

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        encodings = []
        for text in texts:
            long: dict[str, tuple[bytes, bytes]] = {}
            parts = self._look_up(self._split(text), long)
            bounds = lru_cache(partial(self._bounds, text, long))
            starts, ends = (lambda side=side, bounds=bounds: bounds()[:, side] for side in (0, 1))
            encodings.append(Encoding(np.frombuffer(b"".join([ids for ids, _ in parts]), self._dtype), starts, ends))
        return encodings

    def _split(self, text: str) -> list[str]:
        chunks = self._chunks.findall(text)
        if len(text) > ENCODING_CUT and self._chunks is not _COMPLETE:
            return [part for chunk in chunks for part in cut(chunk, ENCODING_CUT)]
        return chunks

    def _bounds(self, text: str, long: dict[str, tuple[bytes, bytes]]) -> NDArray[np.int64]:
        """Return the first character of each token and the one after its last, [T, 2]."""
        chunks = self._split(text)
        parts = [part for _, part in self._look_up(chunks, long)]
        # the same within its chunk, plus the start of the chunk
        bounds: NDArray[np.int64] = np.frombuffer(b"".join(parts), np.int32).astype(np.int64).reshape(-1, 2)
        begins = np.cumsum([0, *map(len, chunks)])[:-1]
        bounds += np.repeat(begins, [len(part) >> 3 for part in parts])[:, None]
        return bounds

    def _look_up(self, chunks: Sequence[str], long: dict[str, tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return ids and token bounds of each chunk; add those of uncached ones to `long`."""
        if len(self._cache) > _CACHED_CHUNKS:
            self._cache.clear()
        new = set(chunks).difference(self._cache, long)
        uncached = [chunk for chunk in new if len(chunk) > _CHUNK_CHARACTERS]
        # long ones one by one, for the memory of the library
        for known, batch in ((self._cache, list(new.difference(uncached))), *((long, [chunk]) for chunk in uncached)):
            rows = self._encode(batch, add_special_tokens=False) if batch else []
            known.update(zip(batch, map(self._to_bytes, rows), strict=True))
        return [self._cache.get(chunk) or long[chunk] for chunk in chunks]

    def _to_bytes(self, row: tokenizers.Encoding) -> tuple[bytes, bytes]:
        bounds = chain.from_iterable(row.offsets) if self._offsets else ()
        return bytes(array(self._dtype.char, row.ids)), bytes(array("i", bounds))
