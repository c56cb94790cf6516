"""Encode byte-level BPE with `tiktoken` if it gives the same ids as the merges of the vocabulary."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import tiktoken
import tokenizers
from numpy.typing import NDArray
from tokenizers import models

from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet

TextEncoder: TypeAlias = Callable[[str], NDArray[np.uint32]]
"""Returns the ids of a text."""

_GPT2: Final = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
"""GPT-2's pre-tokenization pattern, with possessive quantifiers: no backtracking within a word."""
_UNUSED: Final = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def library_encoder(library: tokenizers.Tokenizer) -> TextEncoder:
    """Return the encoder of the `tokenizers` library."""
    return lambda text: np.array(library.encode(text, add_special_tokens=False).ids, dtype=np.uint32)


def rank_encoder(library: tokenizers.Tokenizer, facts: Mapping[str, Any], bare: Collection[str]) -> TextEncoder | None:
    """Return the encoder of `tiktoken` for a `tokenizer.json`; None if the ids of some text could differ.

    `tiktoken` merges the neighbors whose concatenation has the lowest id, while a merge names both neighbors. The ids
    are equal if each merge makes a new piece, the ids of these pieces ascend, and each piece encodes to itself. The
    library encodes runs of spaces that are too long for the pattern of `tiktoken`. `bare` pieces never occur in text.

    Example: "the mask" gives `the` `Ġmask` with the files of GPT-2 in either library.
    """
    content = facts["model"]
    if not _is_plain(facts, bare) or any(content.get(name) for name in _UNUSED):
        return None
    alphabet = byte_alphabet()
    ids = {name: token for name, token in content["vocab"].items() if name not in bare}
    if not alphabet.keys() <= ids.keys() or not all(alphabet.keys() >= set(name) for name in ids):
        return None
    pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in content["merges"]]
    merged = [left + right for left, right in pairs]
    if merged != sorted(ids.keys() - alphabet.keys(), key=ids.__getitem__):
        return None
    model = models.BPE(dict(ids), pairs)
    if any([token.id for token in model.tokenize(name)] != [number] for name, number in ids.items()):
        return None
    ranks = {bytes(alphabet[letter] for letter in name): token for name, token in ids.items()}
    fast = tiktoken.Encoding("clozeline", pat_str=_GPT2, mergeable_ranks=ranks, special_tokens={})
    fallback = library_encoder(library)

    def encode(text: str) -> NDArray[np.uint32]:
        try:
            ids: NDArray[np.uint32] = fast.encode_to_numpy(text, disallowed_special=())
        except ValueError:
            return fallback(text)
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
