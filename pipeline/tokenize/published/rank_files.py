"""Read byte-level BPE from a tiktoken file: a line of base64 and a rank for each token, and nothing else.

`*.tiktoken` and Llama 3's `tokenizer.model` are such files. How text is split and which special tokens follow is only
in the code of their models, so both are named in the configuration.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import byte_alphabet
from clozeline.repair import repair_of

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

_BY_MODEL_TYPE: Final = {"llama": "cl100k", "qwen2": "qwen", "qwen2_moe": "qwen", "qwen3": "qwen", "qwen3_moe": "qwen",
                         "whisper": "gpt2", "gpt2": "gpt2"}  # fmt: skip
"""Patterns by `model_type` of config.json."""
_NORMALIZED: Final = frozenset({"qwen"})
"""Patterns whose models read text in NFC."""


def _llama(reserved: Mapping[int, str]) -> list[str]:
    """Return Llama 3's 256 special tokens: named ones by position, and numbered reserved ones."""
    numbers = iter(range(256))
    return [reserved.get(at) or f"<|reserved_special_token_{next(numbers)}|>" for at in range(256)]


_LLAMA_3: Final = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 6: "<|start_header_id|>", 7: "<|end_header_id|>",
                   9: "<|eot_id|>"}  # fmt: skip
SPECIAL_TOKENS: Final[Mapping[str, Sequence[str]]] = {
    "llama3": _llama(_LLAMA_3),
    "llama3.1": _llama(_LLAMA_3 | {4: "<|finetune_right_pad_id|>", 8: "<|eom_id|>", 16: "<|python_tag|>"}),
    "qwen": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{number}|>" for number in range(205))],
    "gpt2": ["<|endoftext|>"],
}
"""Special tokens in order of their ids, the first one after the ranks, by model."""


def is_rank_file(path: Path) -> bool:
    """Return whether a file begins with a line of a tiktoken file: base64, a space and a rank."""
    with path.open("rb") as file:
        token, _, rank = file.readline(4096).strip().partition(b" ")
    try:
        base64.b64decode(token, validate=True)
    except binascii.Error:
        return False
    return rank.isdigit()


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the rank of each token.

    Raises:
        IntegrityError: a line is not base64 and a rank, or a token or rank occurs twice.
        ConfigurationError: one of the 256 bytes is no token, so some texts would have no ids.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line:
            continue
        token, _, rank = line.partition(b" ")
        try:
            text = b"" if token == b"=" else base64.b64decode(token, validate=True)  # as Whisper's file writes no bytes
            value = int(rank)
        except (binascii.Error, ValueError) as error:
            expected = "expected base64, a space and a rank"
            raise IntegrityError(f"{path}: line {number}: {expected}, got {line[:40]!r}; {repair_of(path)}") from error
        if text in ranks:
            raise IntegrityError(f"{path}: line {number}: the token {text!r} occurs twice; {repair_of(path)}")
        ranks[text] = value
    if len(set(ranks.values())) < len(ranks):
        raise IntegrityError(f"{path}: expected a rank for each token, some occur twice; {repair_of(path)}")
    if lacking := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        raise ConfigurationError(f"tokenizer.path {path}: expected all 256 bytes as tokens, {lacking[0]} is missing")
    return ranks


def pattern_for(path: Path, pattern: str | None, model_type: str | None) -> str:
    """Return the name or the regular expression of a pattern: the configured one, else that of the model type."""
    chosen = pattern or _BY_MODEL_TYPE.get(model_type or "")
    if chosen is None:
        raise ConfigurationError(
            f"tokenizer.path {path}: a tiktoken file does not say how text is split into words: name the pattern of "
            f"its model, tokenizer.pattern={'|'.join(PATTERNS)}, or give a regular expression"
        )
    return chosen


def special_tokens_for(names: str | Sequence[str]) -> list[str]:
    """Return special tokens: a list, or by the name of a model."""
    if not isinstance(names, str):
        return list(names)
    if names not in SPECIAL_TOKENS:
        raise ConfigurationError(
            f"tokenizer.special_tokens: expected a list of pieces, or the name of one: {', '.join(SPECIAL_TOKENS)}; "
            f"got {names!r}"
        )
    return list(SPECIAL_TOKENS[names])


def rank_tokenizer(ranks: Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int]) -> dict[str, Any]:
    """Return the content of a tokenizer.json with the ids of tiktoken.

    Args:
        ranks: id of each token; an empty one, and ids without a token, become special pieces.
        pattern: name in `PATTERNS`, or a regular expression.
        special_tokens: ids of further pieces, which no text gives.
    """
    alphabet = {byte: letter for letter, byte in byte_alphabet().items()}
    names = {token: "".join(alphabet[byte] for byte in token) for token in ranks if token}
    merges = [
        (names[left], names[right])
        for token in sorted(names, key=ranks.__getitem__)
        if len(token) > 1 and (split := _last_split(token, ranks)) is not None
        for left, right in [split]
    ]
    vocabulary = {name: ranks[token] for token, name in names.items()}
    # a whole word that is a token needs no merges, as in tiktoken
    model = models.BPE(vocabulary, merges, ignore_merges=len(merges) < len(names) - 256)
    tokenizer = Tokenizer(model)
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        words = pre_tokenizers.Split(Regex(PATTERNS.get(pattern, pattern)), "isolated")
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, as_bytes])
    if pattern in _NORMALIZED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    facts: dict[str, Any] = json.loads(tokenizer.to_str())
    taken = {**dict.fromkeys(vocabulary.values()), **dict.fromkeys(special_tokens.values())}
    unused = (token for token in range(max(taken, default=-1)) if token not in taken)
    added = {**special_tokens, **{f"<|unused_{token}|>": token for token in unused}}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    facts["added_tokens"] = [
        {"id": token, "content": piece, **flags, "special": True}
        for piece, token in sorted(added.items(), key=lambda item: item[1])
    ]
    return facts


def differences(facts: Mapping[str, Any], ranks: Mapping[bytes, int]) -> list[str]:
    """Return how the vocabulary of a tokenizer.json differs from the ranks next to it, in words."""
    alphabet = byte_alphabet()
    theirs = {
        bytes(alphabet[letter] for letter in name): token
        for name, token in facts["model"]["vocab"].items()
        if set(name) <= alphabet.keys()
    }
    other = sorted(token for token in {**ranks, **theirs} if token and theirs.get(token) != ranks.get(token))
    if not other:
        return []
    return [
        f"tokenizer.json is read; {len(other):,} of its ids differ from the ranks of the tiktoken file, such as that "
        f"of {other[0]!r}: {theirs.get(other[0])} against {ranks.get(other[0])}"
    ]


def _last_split(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Return the two parts that merging by rank leaves of a token before it is complete; None: it leaves more."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda at: ranks.get(parts[at] + parts[at + 1], len(ranks) << 32))
        joined = parts[best] + parts[best + 1]
        if joined not in ranks:
            return None
        parts[best : best + 2] = [joined]
    return parts[0], parts[1]
