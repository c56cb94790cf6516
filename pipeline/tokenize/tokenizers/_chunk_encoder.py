"""Encode a text chunk by chunk with a cache, for algorithms that never cross a chunk boundary."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers import Encoding

BETWEEN_SPACES: Final = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""Chunks of WordPiece, which never crosses white space."""

Tokens: TypeAlias = tuple[Sequence[int] | NDArray[Any], Sequence[int] | NDArray[np.int32]]
"""Ids of a chunk, and the character of the chunk at which each starts."""

_CACHED_CHUNKS: Final = 1 << 18
_CHUNK_CHARACTERS: Final = 64


class ChunkEncoder:
    """Encodes each chunk (a match of `chunks`) once and caches short ones; text between chunks has no tokens.

    `tokens` is the algorithm on one chunk, `together` that on a batch, for libraries that are faster in batches.
    """

    def __init__(
        self,
        chunks: re.Pattern[str],
        tokens: Callable[[str], Tokens],
        dtype: Any,
        together: Callable[[Sequence[str]], Iterable[Tokens]] | None = None,
    ) -> None:
        self._chunks, self._tokens, self._dtype, self._together = chunks, tokens, dtype, together
        self._cache: dict[str, tuple[bytes, bytes]] = {}

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        encodings, cache = [], self._cache
        for text in texts:
            if len(cache) > _CACHED_CHUNKS:
                cache.clear()
            chunks = self._chunks.findall(text)
            if self._together:
                new = [chunk for chunk in set(chunks) if chunk not in cache and len(chunk) <= _CHUNK_CHARACTERS]
                if new:
                    cache.update(zip(new, map(self._to_bytes, self._together(new)), strict=True))
            parts = [(cache.get(chunk) or self._encode_chunk(chunk))[0] for chunk in chunks]
            ids = np.frombuffer(b"".join(parts), dtype=self._dtype)
            encodings.append(Encoding(ids, partial(self._starts, text)))
        return encodings

    def _starts(self, text: str) -> NDArray[np.int64]:
        begins: list[int] = []
        parts: list[bytes] = []
        for match in self._chunks.finditer(text):
            begins.append(match.start())
            parts.append((self._cache.get(match[0]) or self._encode_chunk(match[0]))[1])
        # character of the chunk at which each token starts [T], plus the start of its chunk
        starts: NDArray[np.int64] = np.frombuffer(b"".join(parts), dtype=np.int32).astype(np.int64)
        starts += np.repeat(np.array(begins, dtype=np.int64), [len(part) >> 2 for part in parts])
        return starts

    def _encode_chunk(self, chunk: str) -> tuple[bytes, bytes]:
        encoded = self._to_bytes(self._tokens(chunk))
        if len(chunk) <= _CHUNK_CHARACTERS:
            self._cache[chunk] = encoded
        return encoded

    def _to_bytes(self, tokens: Tokens) -> tuple[bytes, bytes]:
        return np.asarray(tokens[0], self._dtype).tobytes(), np.asarray(tokens[1], np.int32).tobytes()
