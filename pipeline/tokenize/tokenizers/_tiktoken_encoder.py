"""Encode byte-level BPE with `tiktoken` if it gives the same ids as the merges of the vocabulary."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models

from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet

TextEncoder: TypeAlias = Callable[[str], NDArray[np.uint32]]
"""Returns the ids of a text."""

_CONTRACTED: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_MARKED: Final = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]")
_REST: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS: Final[Mapping[str, str]] = {
    # possessive quantifiers: no backtracking within a word
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": rf"{_CONTRACTED}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}",
    "qwen": rf"{_CONTRACTED}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{_MARKED[0]}*{_MARKED[1]}+{_CONTRACTED}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_MARKED[0]}+{_MARKED[1]}*{_CONTRACTED}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_REST}",
}
"""Pre-tokenization patterns of published models: of GPT-2, GPT-4 and Llama 3, Qwen, and GPT-4o."""
_NO_TOKEN: Final = "<|never allowed|>"
"""A special token that no text may use. Without any, tiktoken's search for them matches the empty string everywhere,
which takes as long as the encoding."""
_UNUSED: Final = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def library_encoder(library: tokenizers.Tokenizer) -> TextEncoder:
    """Return the encoder of the `tokenizers` library."""
    return lambda text: np.array(library.encode(text, add_special_tokens=False).ids, dtype=np.uint32)


def rank_encoder(library: tokenizers.Tokenizer, facts: Mapping[str, Any], bare: Collection[str]) -> TextEncoder | None:
    """Return the encoder of `tiktoken` for a `tokenizer.json`; None if the ids of some text could differ.

    `tiktoken` merges the neighbors whose concatenation has the lowest id, while a merge names both neighbors. The ids
    are equal if each merge makes a new piece, the ids of these pieces ascend, and each piece encodes to itself. The
    library encodes runs of spaces that are too long for the pattern of `tiktoken`. `bare` pieces never occur in text.
    With `ignore_merges`, pieces without a merge are those words alone, in either library.

    Example: "the mask" gives `the` `Ġmask` with the files of GPT-2 in either library.
    """
    content = facts["model"]
    pattern = _pattern_of(facts, bare)
    if pattern is None or any(content.get(name) for name in _UNUSED):
        return None
    alphabet = byte_alphabet()
    ids = {name: token for name, token in content["vocab"].items() if name not in bare}
    if not alphabet.keys() <= ids.keys() or not all(alphabet.keys() >= set(name) for name in ids):
        return None
    pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in content["merges"]]
    merged = [left + right for left, right in pairs]
    whole_words = bool(content.get("ignore_merges"))
    if merged != sorted(set(merged) if whole_words else ids.keys() - alphabet.keys(), key=ids.__getitem__):
        return None
    model = models.BPE(dict(ids), pairs, ignore_merges=whole_words)
    if any([token.id for token in model.tokenize(name)] != [number] for name, number in ids.items()):
        return None
    ranks = {bytes(alphabet[letter] for letter in name): token for name, token in ids.items()}
    import tiktoken  # a recipe is checked without it

    special = {_NO_TOKEN: max(ranks.values()) + 1}
    fast = tiktoken.Encoding("clozeline", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    fallback = library_encoder(library)

    def encode(text: str) -> NDArray[np.uint32]:
        try:
            ids: NDArray[np.uint32] = fast.encode_to_numpy(text, disallowed_special=())
        except ValueError:
            return fallback(text)
        return ids

    return encode


def _pattern_of(facts: Mapping[str, Any], bare: Collection[str]) -> str | None:
    """Return the pattern that splits the text of plain byte-level BPE; None for other files, or another pattern."""
    if facts["model"].get("type") != "BPE" or any(entry["content"] not in bare for entry in facts["added_tokens"]):
        return None
    if (facts.get("normalizer") or {"type": "NFC"}).get("type") != "NFC":
        return None
    cutter = facts.get("pre_tokenizer") or {}
    *before, last = cutter.get("pretokenizers", [cutter]) if cutter.get("type") == "Sequence" else [cutter]
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space", True):
        return None
    if not before:
        return PATTERNS["gpt2"] if last.get("use_regex", True) else None
    split, *more = before
    expression = split.get("pattern", {}).get("Regex") if split.get("type") == "Split" else None
    isolated = split.get("behavior") == "Isolated" and not split.get("invert")
    if more or not isolated or last.get("use_regex", True) or expression not in PATTERNS.values():
        return None
    return str(expression)
