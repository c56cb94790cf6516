"""Encode a text chunk by chunk with a cache, for tokenizers none of whose tokens crosses a chunk boundary."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT, byte_alphabet, cut

_ALONE: Final = "(?![^\0-\x7f])"


def _between(space: str) -> str:
    """Return the pattern of words with the space before them, and of other white space."""
    return f"[{space}]+(?![^{space}])| ?[^{space}]+|[{space}]+"


_SPACE: Final = "\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that no normalizer deletes as a control character."""
_SPACE_TOO: Final = f"{_SPACE}\v\f\x85"
SPACED: Final = re.compile(_between(_SPACE))
BYTE_LEVEL: Final = re.compile(
    f"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]++{_ALONE}| ?[0-9]++{_ALONE}"
    f"| ?[^{_SPACE_TOO}A-Za-z0-9\x80-\U0010ffff]++{_ALONE}|{_between(_SPACE_TOO)}"
)
"""GPT-2's words, spelled out for ASCII: fewer different ones than between white space."""
_CACHED_CHUNKS: Final = 1 << 18
_CHUNK_CHARACTERS: Final = 64


def chunk_pattern(facts: Mapping[str, Any], bare: Collection[str]) -> re.Pattern[str] | None:
    """Return the chunks of a `tokenizer.json` whose tokens do not cross them; None if some could.

    Steps of the file that may look beyond white space give None, and so do ordinary added tokens, which may contain
    it, and bytes without a piece. `bare` pieces never occur in text.

    Example: "the cat, the mat" has the chunks `the` ` cat,` ` the` ` mat`, or ` cat` `,` in byte-level BPE.
    """
    cutter, normalizer = facts.get("pre_tokenizer") or {}, facts.get("normalizer") or {}
    if any(entry["content"] not in bare for entry in facts["added_tokens"]):
        return None
    if cutter.get("type") == "ByteLevel" and not cutter["add_prefix_space"] and cutter.get("use_regex", True):
        has_bytes = byte_alphabet().keys() <= facts["model"]["vocab"].keys() - bare
        return BYTE_LEVEL if has_bytes and not normalizer else None
    if cutter.get("type") == "BertPreTokenizer" and normalizer.get("type") in (None, "BertNormalizer"):
        return SPACED
    return None


class ChunkEncoder:
    """Encodes each chunk (a match of `chunks`) once and caches short ones.

    Without `offsets`, encodings have ids only, and very long chunks are cut. The library alone encodes .2 to .5 times
    as many bytes a second.
    """

    def __init__(
        self, library: tokenizers.Tokenizer, chunks: re.Pattern[str], dtype: Any, *, offsets: bool = True
    ) -> None:
        self._library, self._chunks, self._dtype = library, chunks, dtype
        self._offsets = offsets
        self._cache: dict[str, tuple[bytes, bytes]] = {}

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        encodings = []
        for text in texts:
            if len(self._cache) > _CACHED_CHUNKS:
                self._cache.clear()
            chunks = self._chunks.findall(text)
            if not self._offsets and len(text) > ENCODING_CUT:
                chunks = [part for chunk in chunks for part in cut(chunk, ENCODING_CUT)]
            ids = np.frombuffer(b"".join([part for part, _ in self._parts(chunks)]), self._dtype)
            encodings.append(Encoding(ids, partial(self._starts, text)))
        return encodings

    def _starts(self, text: str) -> NDArray[np.int64]:
        matches = list(self._chunks.finditer(text))
        parts = [part for _, part in self._parts([match[0] for match in matches])]
        # character of the chunk at which each token starts [T], plus the start of its chunk
        starts: NDArray[np.int64] = np.frombuffer(b"".join(parts), dtype=np.int32).astype(np.int64)
        begins = np.array([match.start() for match in matches], dtype=np.int64)
        starts += np.repeat(begins, [len(part) >> 2 for part in parts])
        return starts

    def _parts(self, chunks: Sequence[str]) -> list[tuple[bytes, bytes]]:
        """Return ids and token starts of each chunk."""
        cache = self._cache
        new = [chunk for chunk in set(chunks) if chunk not in cache]
        if not new:
            return [cache[chunk] for chunk in chunks]
        encode = self._library.encode_batch if self._offsets else self._library.encode_batch_fast
        known = dict(zip(new, map(self._to_bytes, encode(new, add_special_tokens=False)), strict=True))
        parts = [cache.get(chunk) or known[chunk] for chunk in chunks]
        cache.update((chunk, tokens) for chunk, tokens in known.items() if len(chunk) <= _CHUNK_CHARACTERS)
        return parts

    def _to_bytes(self, row: tokenizers.Encoding) -> tuple[bytes, bytes]:
        starts = [start for start, _ in row.offsets] if self._offsets else []
        return np.array(row.ids, self._dtype).tobytes(), np.array(starts, np.int32).tobytes()
