"""Byte-level BPE by `tiktoken`, for vocabularies to which it gives the ids that their merges give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import tiktoken
import tokenizers
from numpy.typing import NDArray
from tokenizers import models

from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet

TextEncoder: TypeAlias = Callable[[str], NDArray[np.uint32]]
"""Gives the ids of a text."""

_GPT2: Final = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
"""The words of GPT-2, as `ByteLevel` of the `tokenizers` library cuts them, without going back within a word."""
_UNUSED: Final = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def library_encoder(library: tokenizers.Tokenizer) -> TextEncoder:
    """Return the encoder of `tokenizers`."""
    return lambda text: np.array(library.encode(text, add_special_tokens=False).ids, dtype=np.uint32)


def rank_encoder(library: tokenizers.Tokenizer, facts: Mapping[str, Any], bare: Collection[str]) -> TextEncoder | None:
    """Return the encoder of `tiktoken` for a `tokenizer.json`, None where the ids of some text could differ.

    `tiktoken` merges the two neighbours whose bytes together have the lowest id; the merges of a file name both
    neighbours. A piece is the same bytes in whatever word, so what it is merged from is the same in all of them. Thus
    the ids are equal where each merge makes a piece of its own, these have rising ids, and the bytes of each piece
    alone give that piece.

    Args:
        library: the file as `tokenizers` reads it, for runs of blanks too long for the patterns of `tiktoken`.
        facts: content of the file.
        bare: pieces that no text gives.

    Example: "the mask" gives `the` `Ġmask` with the files of GPT-2, by either library.
    """
    model = facts["model"]
    if not _is_plain(facts, bare) or any(model.get(name) for name in _UNUSED):
        return None
    alphabet = byte_alphabet()
    ids = {name: token for name, token in model["vocab"].items() if name not in bare}
    if not alphabet.keys() <= ids.keys() or not all(alphabet.keys() >= set(name) for name in ids):
        return None
    pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
    made = [left + right for left, right in pairs]
    if made != sorted(ids.keys() - alphabet.keys(), key=ids.__getitem__) or not _reachable(ids, pairs):
        return None
    ranks = {bytes(alphabet[letter] for letter in name): token for name, token in ids.items()}
    quick = tiktoken.Encoding("clozeline", pat_str=_GPT2, mergeable_ranks=ranks, special_tokens={})
    sure = library_encoder(library)

    def encode(text: str) -> NDArray[np.uint32]:
        try:
            ids: NDArray[np.uint32] = quick.encode_to_numpy(text, disallowed_special=())
        except ValueError:
            return sure(text)
        return ids

    return encode


def _is_plain(facts: Mapping[str, Any], bare: Collection[str]) -> bool:
    cutter = facts.get("pre_tokenizer") or {}
    return (
        facts["model"].get("type") == "BPE"
        and not facts.get("normalizer")
        and cutter.get("type") == "ByteLevel"
        and cutter.get("use_regex", True)
        and not cutter.get("add_prefix_space", True)
        and all(entry["content"] in bare for entry in facts["added_tokens"])
    )


def _reachable(ids: Mapping[str, int], pairs: list[Any]) -> bool:
    library = models.BPE(dict(ids), pairs)
    return all([token.id for token in library.tokenize(name)] == [number] for name, number in ids.items())
