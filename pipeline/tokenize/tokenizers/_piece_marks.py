"""How the pieces of a `tokenizer.json` mark words, and the bytes that they stand for."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import tokenizers

from clozeline.pipeline.tokenize.tokenizers._pieces import WordMarks, byte_alphabet

_BYTE_PIECE: Final = re.compile("<0x[0-9A-F]{2}>")
BLANKS: Final = " \u2581\u0120"
"""a space in text, in pieces of SentencePiece and in the byte alphabet"""


def _word_suffix(spec: dict[str, Any]) -> str:
    """Return the end-of-word mark of the model, or of the decoder if a normalizer appends it."""
    decoder = spec.get("decoder") or {}
    removed = decoder["suffix"] if decoder.get("type") == "BPEDecoder" else ""
    suffix: str = spec["model"].get("end_of_word_suffix") or removed
    return (
        suffix if suffix and any(name.endswith(suffix) for name in spec["model"]["vocab"]) else ""
    )


def _keeps_spaces(library: tokenizers.Tokenizer) -> bool:
    """Return whether the model sees the spaces between words."""
    text = library.normalizer.normalize_str("a b") if library.normalizer else "a b"
    words = (
        [word for word, _ in library.pre_tokenizer.pre_tokenize_str(text)]
        if library.pre_tokenizer
        else [text]
    )
    return any(blank in "".join(words)[1:] for blank in BLANKS)


def find_marks(spec: dict[str, Any], library: tokenizers.Tokenizer) -> WordMarks:
    """Return how the pieces of a file mark words."""
    if spec["model"]["type"] == "WordLevel":
        return "each"
    if _word_suffix(spec):
        return "end"
    return (
        "start"
        if spec["model"].get("continuing_subword_prefix") or _keeps_spaces(library)
        else "none"
    )


def byte_converter(spec: dict[str, Any], library: tokenizers.Tokenizer) -> Callable[[str], bytes]:
    """Return a function from a piece to its bytes; marks of word starts and ends become spaces."""
    model = spec["model"]
    steps = json.dumps([spec.get("pre_tokenizer"), spec.get("decoder")], ensure_ascii=False)
    space = (
        "\u2581"
        if "\u2581" in steps + json.dumps(spec.get("normalizer"), ensure_ascii=False)
        else " "
    )
    prefix = model.get("continuing_subword_prefix") or ""
    suffix = _word_suffix(spec)
    alphabet = byte_alphabet() if '"ByteLevel"' in steps else {}

    def to_bytes(name: str) -> bytes:
        if alphabet and set(name) <= alphabet.keys():
            return bytes(alphabet[letter] for letter in name)
        is_byte = model.get("byte_fallback") and _BYTE_PIECE.fullmatch(name)
        return bytes([int(name[3:5], 16)]) if is_byte else name.replace(space, " ").encode()

    if suffix:
        return lambda name: to_bytes(name.removesuffix(suffix)) + b" " * name.endswith(suffix)
    if prefix:
        return lambda name: to_bytes(
            name[len(prefix) :] if name.startswith(prefix) and name != prefix else f" {name}"
        )

    if model["type"] == "WordLevel" and not _keeps_spaces(library):
        return lambda name: b" " + to_bytes(name)
    return to_bytes
