"""Encoding chunk by chunk, for algorithms no step of which crosses the border between two chunks of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.tokenizers import Encoding

__all__ = ["ChunkEncoder", "Tokens"]

Tokens: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""Ids of a chunk, and the character of the chunk at which each begins."""

_KNOWN_CHUNKS: Final = 1 << 18
_CHUNK_CHARACTERS: Final = 64


class ChunkEncoder:
    """Encodes each chunk once and remembers short ones.

    Args:
        chunks: pattern of a chunk; text between matches has no tokens.
        tokens: the algorithm, on one chunk.
        dtype: type of ids.
    """

    def __init__(self, chunks: re.Pattern[str], tokens: Callable[[str], Tokens], dtype: Any) -> None:
        self._chunks, self._tokens, self._dtype = chunks, tokens, dtype
        self._known: dict[str, tuple[bytes, bytes]] = {}

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        return [self._encoded(text) for text in texts]

    def _encoded(self, text: str) -> Encoding:
        if len(self._known) > _KNOWN_CHUNKS:
            self._known.clear()
        known, learned = self._known, self._learned
        parts = [(known.get(chunk) or learned(chunk))[0] for chunk in self._chunks.findall(text)]
        return Encoding(np.frombuffer(b"".join(parts), dtype=self._dtype), lambda: self._starts(text))

    def _starts(self, text: str) -> NDArray[np.int64]:
        begins: list[int] = []
        parts: list[bytes] = []
        for match in self._chunks.finditer(text):
            begins.append(match.start())
            parts.append((self._known.get(match[0]) or self._learned(match[0]))[1])
        starts: NDArray[np.int64] = np.frombuffer(b"".join(parts), dtype=np.int32).astype(np.int64)
        starts += np.repeat(np.array(begins, dtype=np.int64), [len(part) >> 2 for part in parts])
        return starts

    def _learned(self, chunk: str) -> tuple[bytes, bytes]:
        ids, starts = self._tokens(chunk)
        learned = np.array(ids, self._dtype).tobytes(), np.array(starts, np.int32).tobytes()
        if len(chunk) <= _CHUNK_CHARACTERS:
            self._known[chunk] = learned
        return learned
