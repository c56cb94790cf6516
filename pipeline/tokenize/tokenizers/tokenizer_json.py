"""Imported tokenizers: a `tokenizer.json` encoded by the `tokenizers` library, whatever files were published."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, byte_alphabet
from clozeline.pipeline.tokenize.tokenizers._private_pieces import hide_pieces
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers._tiktoken_encoder import rank_encoder
from clozeline.pipeline.tokenize.tokenizers._vocabulary_extension import ByteMerges, with_merges
from clozeline.pipeline.tokenize.tokenizers._wordpiece_library import word_encoder
from clozeline.repair import repair_of

_BYTE: Final = re.compile("<0x[0-9A-F]{2}>")


class TokenizerJson(ByteMerges):
    """A `tokenizer.json` with the ids of its library, without truncation and padding.

    Example:
        GPT-2's splits "the mask" into `the` `Ġmask`, and "<|endoftext|>" into seven ordinary pieces.
    """

    FILE: ClassVar[str] = "tokenizer.json"
    LOSS: ClassVar[str] = "what its normalizer changes, and characters without a piece"

    def __init__(self, facts: dict[str, Any], published: Published, where: str = FILE) -> None:
        self._facts = facts
        self._published = published
        names = pieces_of(facts, where)
        bare = published.bare() | {entry["content"] for entry in facts["added_tokens"] if entry["special"]}
        to_bytes = _byte_converter(facts)
        self._table = PieceTable([None if name in bare else to_bytes(name) for name in names], names)
        decisive = {name: facts[name] for name in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        self.vocabulary = published.vocabulary(self._table, {"name": "tokenizer_json", **decisive})
        if facts["model"].get("end_of_word_suffix"):  # no piece marks the start of a word: each counts as one
            self.vocabulary = replace(self.vocabulary, word_start=~self.vocabulary.special)
        hidden, _ = hide_pieces(facts, bare)
        self._model = _read_text(json.dumps(hidden), where)
        self._model.encode_special_tokens = True
        _check_added(self._model, facts, hidden, where)
        self._encode_ranks = rank_encoder(self._model, facts, bare)
        self._word_encoder = word_encoder(self._model, facts, bare, self.vocabulary.id_dtype)

    @classmethod
    def load(cls, folder: Path) -> TokenizerJson:
        path = folder / cls.FILE
        return cls(read_json(path), Published.load(folder), str(path))

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        dtype = self.vocabulary.id_dtype
        if self._word_encoder:
            return self._word_encoder.encode(texts)
        if self._encode_ranks and self._keeps(texts):
            return self._table.encodings(texts, [self._encode_ranks(text).astype(dtype) for text in texts])
        rows = self._model.encode_batch(list(texts), add_special_tokens=False)
        return [
            Encoding(np.array(row.ids, dtype=dtype), partial(_bounds, row, 0), partial(_bounds, row, 1)) for row in rows
        ]

    def _keeps(self, texts: Sequence[str]) -> bool:
        """Return whether the normalizer, NFC where ranks encode, changes none of the texts."""
        return not self._facts.get("normalizer") or all(unicodedata.is_normalized("NFC", text) for text in texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode with the file's decoder up to the first special id; the rest as pieces."""
        tokens = [int(token) for token in ids]
        special = self.vocabulary.special
        end = next((index for index, token in enumerate(tokens) if special[token]), len(tokens))
        if not self._facts.get("decoder"):
            return self._table.decode(tokens)
        text: str = self._model.decode(tokens[:end], skip_special_tokens=False)
        return text + self._table.decode(tokens[end:])

    def extend(self, merges: Sequence[tuple[str, str]], folder: Path) -> TokenizerJson:
        """Write the vocabulary with further merges, each with a new piece at the end; existing ids stay.

        Raises:
            ConfigurationError: it is neither byte-level BPE nor WordPiece, or has ids after those of the model.
        """
        model, pre_tokenizer = self._facts["model"], json.dumps(self._facts.get("pre_tokenizer"))
        able = model["type"] == "WordPiece" or (model["type"] == "BPE" and '"ByteLevel"' in pre_tokenizer)
        if not able or len(model["vocab"]) != self.vocabulary.size:
            last = [entry["content"] for entry in self._facts["added_tokens"] if entry["id"] >= len(model["vocab"])]
            raise ConfigurationError(
                f"{self.FILE}: expected a byte-level BPE or WordPiece without ids after its {len(model['vocab']):,} "
                f"pieces, got a {model['type']} with {self.vocabulary.size:,} ids: a new piece would take that of "
                f"{', '.join(last[:3]) or 'another'}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(with_merges(self._facts, merges), ensure_ascii=False, indent=1)
        (folder / self.FILE).write_text(text + "\n", encoding="utf-8")
        self._published.save(folder)
        return self.load(folder)

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        return _read_text(json.dumps(self._facts), self.FILE)

    def rename_specials(self, names: Mapping[int, str]) -> tokenizers.Tokenizer:
        """Return the library with these names of special ids, which a text can spell; an appended id may be another."""
        facts: dict[str, Any] = json.loads(self._model.to_str())
        model, hidden = facts["model"], {self._model.id_to_token(token): name for token, name in names.items()}
        hidden.pop(None, None)  # of appended ids, which the library does not know
        if isinstance(model["vocab"], dict):
            model["vocab"] = {hidden.get(piece, piece): token for piece, token in model["vocab"].items()}
        else:
            model["vocab"] = [[hidden.get(piece, piece), score] for piece, score in model["vocab"]]
        if (unknown := model.get("unk_token")) in hidden:
            model["unk_token"] = hidden[unknown]
        for entry in facts["added_tokens"]:
            entry["content"] = hidden.get(entry["content"], entry["content"])
        library, added = _read_text(json.dumps(facts), self.FILE), self.to_tokenizers().get_added_tokens_decoder()
        for token, name in names.items():
            like = added.get(token, tokenizers.AddedToken(name))
            flags = {flag: getattr(like, flag) for flag in ("lstrip", "rstrip", "single_word")}
            library.add_tokens([tokenizers.AddedToken(name, normalized=False, **flags)])
        return library


def _bounds(row: tokenizers.Encoding, side: Literal[0, 1]) -> NDArray[np.int64]:
    """Return the first character of each token [T] (side 0), or the one after its last (side 1)."""
    return np.array([offsets[side] for offsets in row.offsets], dtype=np.int64)


def read_json(path: Path) -> dict[str, Any]:
    """Read a `tokenizer.json`; IntegrityError if it is missing or not a tokenizer."""
    try:
        facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        _ = facts["added_tokens"], facts["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{path}: not a tokenizer of the `tokenizers` library ({error!r}); {repair_of(path)}"
        ) from error
    return facts


def _read_text(text: str, where: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise IntegrityError(
            f"{where}: not a tokenizer of the `tokenizers` library ({error}); {repair_of(where)}"
        ) from error


def pieces_of(facts: dict[str, Any], where: str) -> list[str]:
    """Return the pieces in order of their ids; ConfigurationError if ids are missing or used twice."""
    vocabulary = facts["model"]["vocab"]
    ids = dict(vocabulary) if isinstance(vocabulary, dict) else {entry[0]: n for n, entry in enumerate(vocabulary)}
    ids |= {entry["content"]: entry["id"] for entry in facts["added_tokens"]}
    names = sorted(ids, key=ids.__getitem__)
    for number, name in enumerate(names):
        if ids[name] != number:
            raise ConfigurationError(
                f"{where}: expected the ids 0 .. {len(ids) - 1} without holes, got {ids[name]} ({name!r}) where "
                f"{number} should be; a new token would get an id that is taken: give the missing ids pieces of their "
                "own, `[unused0]`"
            )
    return names


def _check_added(model: tokenizers.Tokenizer, facts: dict[str, Any], hidden: dict[str, Any], where: str) -> None:
    """Raise ConfigurationError unless the library gives each added token the id of the file: it counts them anew."""
    for entry, private in zip(facts["added_tokens"], hidden["added_tokens"], strict=True):
        if (found := model.token_to_id(private["content"])) != entry["id"]:
            raise ConfigurationError(
                f"{where}: the added token {entry['content']!r} has the id {entry['id']} in the file, {found} in the "
                "`tokenizers` library: the ids of a model's tokens may not change"
            )


def _byte_converter(facts: dict[str, Any]) -> Callable[[str], bytes]:
    """Return the function from a piece to its bytes."""
    model, kinds = facts["model"], json.dumps([facts.get("pre_tokenizer"), facts.get("decoder")])
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    if '"ByteLevel"' in kinds:
        alphabet = byte_alphabet()
        return lambda name: bytes(alphabet[c] for c in name) if set(name) <= alphabet.keys() else name.encode()
    if model["type"] == "WordPiece":
        return lambda name: (name.removeprefix(prefix) if name.startswith(prefix) else f" {name}").encode()
    if suffix:
        return lambda name: (f"{name.removesuffix(suffix)} " if name.endswith(suffix) else name).encode()
    return lambda name: bytes([int(name[3:5], 16)]) if _BYTE.fullmatch(name) else name.replace("\u2581", " ").encode()
