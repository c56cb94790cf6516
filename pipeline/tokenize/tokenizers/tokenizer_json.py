"""Tokenizers in a `tokenizer.json`, which the `tokenizers` library encodes: imported or trained."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json, read_text
from clozeline.pipeline.tokenize.tokenizers._byte_level_words import (
    ByteLevelWords,
    has_byte_level_words,
)
from clozeline.pipeline.tokenize.tokenizers._piece_marks import (
    BLANKS,
    byte_converter,
    find_marks,
)
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    ENCODING_CUT,
    Encoding,
    PieceTable,
    Tokenizer,
    UnknownParts,
    UnknownReason,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.repair import rebuild_hint

_PRIVATE_PREFIX: Final = f"\uffff{secrets.token_hex(16)}"
"""prefix for the names of special pieces: random in each process and never written, so that no text
contains it"""
_MOST_SHOWN_CHARACTERS: Final = 24
"""most characters of an unknown word that are shown"""


_MOST_GROWTH: Final = 1000
"""most characters that a normalizer may make of one; Unicode's compatibility forms have up to 18"""
_EMPTY: Final = {"model": {"type": "BPE", "vocab": {}, "merges": []}}


class TokenizerJson(Tokenizer):
    """A `tokenizer.json` with the ids of its library, without truncation and padding.

    Example:
        GPT-2's splits "the mask" into `the` `Ġmask`, and "<|endoftext|>" into seven ordinary
        pieces.
    """

    FILE = "tokenizer.json"
    LOSS = "its normalizer may change text, and characters without a piece are lost"

    def __init__(
        self, spec: dict[str, Any], published: PublishedMetadata, where: str = FILE
    ) -> None:
        self._spec = spec
        self._published = published
        names = list_pieces(spec, where)
        refuse_growth(spec, where)
        special = published.special_names() | {
            entry["content"] for entry in spec["added_tokens"] if entry["special"]
        }
        hidden, _ = hide_pieces(spec, special)
        self._model = _read_text(json.dumps(hidden), where)
        self._model.encode_special_tokens = True
        _check_added(self._model, spec, hidden, where)

        # the bytes of all pieces, and the vocabulary
        marks = find_marks(spec, self._model)
        to_bytes = byte_converter(spec, self._model)
        self._table = PieceTable(
            [None if name in special else to_bytes(name) for name in names], names, marks
        )
        decisive = {
            name: spec[name] for name in ("added_tokens", "normalizer", "pre_tokenizer", "model")
        }
        self.vocabulary = published.vocabulary(self._table, {"name": "tokenizer_json", **decisive})
        self._ids_of_names = {name: number for number, name in enumerate(names)}
        self._dropped: dict[str, bool] = {}
        self._lossless = not self.loss
        by_words = has_byte_level_words(spec, special)
        self._words = ByteLevelWords(self._model, self.vocabulary.id_dtype) if by_words else None

    @classmethod
    def write(cls, folder: Path, model: tokenizers.Tokenizer, published: PublishedMetadata) -> Self:
        """Write a model and the roles of its pieces, and load both."""
        # all special pieces are in the vocabulary
        spec = {
            **json.loads(model.to_str()),
            "added_tokens": [],
        }
        return cls._write(folder, spec, published)

    @classmethod
    def _write(cls, folder: Path, spec: dict[str, object], published: PublishedMetadata) -> Self:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(spec, ensure_ascii=False, indent=1)
        (folder / cls.FILE).write_text(text + "\n", encoding="utf-8")
        published.save(folder)
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        path = folder / cls.FILE
        try:
            return cls(read_tokenizer_json(path), PublishedMetadata.load(folder), str(path))
        except ConfigurationError as error:
            raise IntegrityError(
                f"{path}: not the tokenizer of its folder ({error}); {rebuild_hint(path)}"
            ) from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        if self._words is not None:
            return self._table.encodings(texts, map(self._words.encode, texts))
        return [encoding for group in _group(texts) for encoding in self._encode_group(group)]

    def _encode_group(self, texts: Sequence[str]) -> list[Encoding]:
        if self._lossless:  # the lengths of the pieces show that no text is lost
            rows = self._model.encode_batch_fast(texts, add_special_tokens=False)
            return self._table.encodings(texts, map(self._ids, rows))
        return list(map(self._encoding, self._model.encode_batch(texts, add_special_tokens=False)))

    def _encoding(self, row: tokenizers.Encoding) -> Encoding:
        """Return the tokens of a text with the library's offsets."""
        offsets = chain.from_iterable(row.offsets)
        starts, ends = np.fromiter(offsets, np.int64, 2 * len(row)).reshape(-1, 2).T
        return Encoding(self._ids(row), starts, ends)

    def _ids(self, row: tokenizers.Encoding) -> NDArray[np.generic]:
        return np.array(row.ids, self.vocabulary.id_dtype)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode by the file's decoder up to the first special id, and other ids as pieces."""
        tokens = [int(token) for token in ids]
        special = self.vocabulary.special
        end = next((index for index, token in enumerate(tokens) if special[token]), len(tokens))
        if not self._spec.get("decoder"):
            return self._table.decode(tokens)
        text: str = self._model.decode(tokens[:end], skip_special_tokens=False)
        return text + self._table.decode(tokens[end:])

    @cached_property
    def unknown_id(self) -> int:
        """Return the id of the unknown token, by its role or from the model; -1 without one."""
        model = self._spec["model"]
        named = self._ids_of_names.get(model.get("unk_token") or "", model.get("unk_id"))
        return self.vocabulary.specials.get("unk", -1 if named is None else named)

    def unknown_parts(self, text: str, encoding: Encoding) -> UnknownParts:
        """Return the unknown tokens, or the letters that a BPE without an unknown token drops.

        The offsets of the library do not show where it dropped letters.
        """
        model = self._spec["model"]
        if self._words is not None or model["type"] != "BPE" or model.get("unk_token"):
            return super().unknown_parts(text, encoding)
        dropped = {letter for letter in set(text) if self._drops(letter)}
        lost = [letter for letter in text if letter in dropped] if dropped else []
        return UnknownParts(0, len(lost), lost)

    def _drops(self, letter: str) -> bool:
        """Return whether a letter, visible after normalization, has no token."""
        if letter not in self._dropped:
            normalizer = self._model.normalizer
            normal = normalizer.normalize_str(letter) if normalizer else letter
            is_visible = not normal.isspace() and normal.isprintable() and bool(normal)
            self._dropped[letter] = (
                is_visible and not self._model.encode(letter, add_special_tokens=False).ids
            )
        return self._dropped[letter]

    def explain_unknown(self, text: str) -> tuple[UnknownReason, tuple[str, ...]]:
        model = self._spec["model"]
        normalizer = self._model.normalizer
        word = (normalizer.normalize_str(text) if normalizer else text).strip(BLANKS)
        longest = model.get("max_input_chars_per_word")  # of WordPiece
        if longest is not None and len(word) > longest:
            return UnknownReason.LONG_WORD, (
                f"{word[:_MOST_SHOWN_CHARACTERS]}… ({len(word):,} characters, at most {longest})",
            )

        if model["type"] == "WordLevel" and len(word) > 1:
            return UnknownReason.WORDS, (
                word
                if len(word) <= _MOST_SHOWN_CHARACTERS
                else f"{word[:_MOST_SHOWN_CHARACTERS]}…",
            )

        # the letters without a piece
        lacking = self.lacking_letters(word) or [
            letter for letter in word if letter not in self._ids_of_names
        ]
        inside = model.get("continuing_subword_prefix") or ""
        letters = []
        for piece in lacking:
            letter = piece.removeprefix(inside) or piece
            letters.append(piece if letter in self._ids_of_names else letter)

        return UnknownReason.LETTERS, tuple(dict.fromkeys(letters)) or (
            word[:_MOST_SHOWN_CHARACTERS],
        )

    @cached_property
    def _longest_piece(self) -> int:
        return max(map(len, self._ids_of_names), default=1)

    def lacking_letters(self, word: str) -> list[str]:
        """Return the letter pieces that a WordPiece lacks to spell a normalized word.

        A letter inside a word has another piece than at its start: `##x`. The list is empty
        for a word that is too long.
        """
        model = self._spec["model"]
        if model["type"] != "WordPiece" or len(word) > model["max_input_chars_per_word"]:
            return []

        # match the longest pieces, as the model does
        lacking = list[str]()
        start = 0
        while start < len(word):
            mark = model["continuing_subword_prefix"] if start else ""
            most = min(len(word), start + self._longest_piece)
            longest = (
                end
                for end in range(most, start, -1)
                if mark + word[start:end] in self._ids_of_names
            )
            end = next(longest, None)
            if end is None:
                end = start + 1
                lacking.append(mark + word[start])
            start = end

        return lacking

    def words(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the words of texts as the model reads them; no piece crosses their boundaries."""
        normalizer = self._model.normalizer
        splitter = self._model.pre_tokenizer
        for text in training_texts(texts):
            text = normalizer.normalize_str(text) if normalizer else text
            pairs = splitter.pre_tokenize_str(text) if splitter else [(text, None)]
            yield from (word for word, _ in pairs)

    def split_word(self, word: str) -> list[str]:
        """Return the pieces of a word; empty if one of them is the unknown token."""
        ids = [token.id for token in self._model.model.tokenize(word)]
        return (
            []
            if self.vocabulary.specials.get("unk") in ids
            else [self.piece(token) for token in ids]
        )

    def join_pieces(self, left: str, right: str) -> str:
        """Return the merge of two pieces."""
        return left + right.removeprefix(self._spec["model"].get("continuing_subword_prefix") or "")

    def extend(
        self, merges: Sequence[tuple[str, str]], folder: Path, letters: Sequence[str] = ()
    ) -> Self:
        """Write the vocabulary with new letters and merges, whose pieces come last.

        Existing ids stay the same. Letters are as in `lacking_letters`.

        Raises:
            ConfigurationError: the tokenizer is neither WordPiece nor byte-level BPE, or has ids
                after those of the model.
        """
        model = self._spec["model"]
        pre_tokenizer = json.dumps(self._spec.get("pre_tokenizer"))
        size = len(model["vocab"])
        merging = model["type"] == "BPE" and '"ByteLevel"' in pre_tokenizer
        if not (merging or model["type"] == "WordPiece") or size != self.vocabulary.size:
            last = [entry["content"] for entry in self._spec["added_tokens"] if entry["id"] >= size]
            raise ConfigurationError(
                f"{self.FILE}: expected a byte-level BPE or WordPiece without ids after its "
                f"{size:,} pieces, got a {model['type']} with {self.vocabulary.size:,} ids: a new "
                f"piece would take the id of {', '.join(last[:3]) or 'another piece'}"
            )

        # number the new pieces after the others
        added = [*letters, *(self.join_pieces(*pair) for pair in merges)]
        new = {piece: size + number for number, piece in enumerate(added)}
        larger = {**model, "vocab": model["vocab"] | new}

        if merging:
            pairs = [
                pair.split(" ") if isinstance(pair, str) else list(pair) for pair in model["merges"]
            ]
            larger["merges"] = [*pairs, *map(list, merges)]
        # the publisher's files do not describe the larger vocabulary
        extended = replace(self._published, tokenizer_class="")
        return self._write(folder, {**self._spec, "model": larger}, extended)

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        return _read_text(json.dumps(self._spec), self.FILE)

    def rename_specials(self, names: Mapping[int, str]) -> tokenizers.Tokenizer:
        """Return the library's tokenizer with other names of special ids, which texts may hold."""
        spec, _ = rename_pieces(
            self._spec, {self.piece(token): name for token, name in names.items()}
        )
        library = _read_text(json.dumps(spec), self.FILE)
        added = self.to_tokenizers().get_added_tokens_decoder()
        for token, name in names.items():
            like = added.get(token, tokenizers.AddedToken(name))
            flags = {flag: getattr(like, flag) for flag in ("lstrip", "rstrip", "single_word")}
            library.add_tokens([tokenizers.AddedToken(name, normalized=False, **flags)])
        return library


def _group(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield small groups of texts for a call of the library, whose memory grows with the text."""
    group: list[str] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text)
        if characters >= ENCODING_CUT:
            yield group
            group = []
            characters = 0
    if group:
        yield group


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """Read a `tokenizer.json`; raise IntegrityError if it is missing or not a tokenizer."""
    try:
        spec: dict[str, Any] = parse_json(read_text(path))
        _ = spec["added_tokens"], spec["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{path}: not a tokenizer of the `tokenizers` library ({error!r}); {rebuild_hint(path)}"
        ) from error
    return spec


def _read_text(text: str, where: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower class
        raise IntegrityError(
            f"{where}: not a tokenizer of the `tokenizers` library ({error}); {rebuild_hint(where)}"
        ) from error


def refuse_growth(spec: Mapping[str, Any], where: str) -> None:
    """Raise ConfigurationError if a normalizer makes a long text of a letter.

    A short document would fill the memory.
    """
    steps = [spec.get("normalizer")]
    grown = ["a"]

    while steps:
        step = steps.pop(0) or {"type": "Sequence", "normalizers": []}
        if step["type"] == "Sequence":
            steps[:0] = step["normalizers"]
            continue
        # what one step writes, the next ones may change again
        normalizer = _read_text(json.dumps({**_EMPTY, "normalizer": step}), where).normalizer
        grown = [step.get("content") or "", *map(normalizer.normalize_str, grown)]
        if (longest := max(map(len, grown))) > _MOST_GROWTH:
            raise ConfigurationError(
                f"{where}: its normalizer ({step['type']}) may make {longest:,} characters of one, "
                f"expected at most {_MOST_GROWTH}: use the tokenizer as it was published"
            )


def piece_ids(spec: dict[str, Any]) -> dict[str, int]:
    """Return the id of each piece of a `tokenizer.json`, with its added tokens."""
    pieces = spec["model"]["vocab"]
    ids = (
        dict(pieces)
        if isinstance(pieces, dict)
        else {piece[0]: token for token, piece in enumerate(pieces)}
    )
    return ids | {entry["content"]: entry["id"] for entry in spec["added_tokens"]}


def hide_pieces(spec: dict[str, object], special: Collection[str]) -> tuple[dict[str, object], int]:
    """Return a `tokenizer.json` whose special pieces no text can spell.

    All other ids stay the same. The second result is the number of lost merges.
    """
    return rename_pieces(spec, {piece: _PRIVATE_PREFIX + piece for piece in special})


def rename_pieces(spec: dict[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """Rename special pieces in a `tokenizer.json`; also return the number of lost merges.

    The pieces are not removed, because the library would renumber the added tokens after them.
    Merges that build or use one are dropped. So are truncation, padding, the template and BPE
    dropout.
    """
    model = dict(spec["model"])
    pieces = spec["model"]["vocab"]
    if isinstance(pieces, dict):
        model["vocab"] = {names.get(piece, piece): token for piece, token in pieces.items()}
    else:
        model["vocab"] = [[names.get(piece, piece), *rest] for piece, *rest in pieces]

    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]

    # merges that build or use a renamed piece are lost
    merges = model.get("merges") or []
    if merges:
        prefix = model.get("continuing_subword_prefix") or ""
        model["merges"] = [
            [left, right]
            for left, right in merges
            if not names.keys() & {left, right, left + right.removeprefix(prefix)}
        ]

    if model.get("dropout"):
        model["dropout"] = None

    added = [
        {**entry, "content": names[entry["content"]], "special": True}
        if entry["content"] in names
        else entry
        for entry in spec["added_tokens"]
    ]

    dropped = dict.fromkeys(("truncation", "padding", "post_processor"))
    renamed = {**spec, **dropped, "model": model, "added_tokens": added}
    return renamed, len(merges) - len(model.get("merges") or [])


def list_pieces(spec: dict[str, object], where: str) -> list[str]:
    """Return the pieces in order of their ids.

    Raises:
        ConfigurationError: ids are missing or used twice.
    """
    ids = piece_ids(spec)
    names = sorted(ids, key=ids.__getitem__)
    for number, name in enumerate(names):
        if ids[name] != number:
            raise ConfigurationError(
                f"{where}: expected the ids 0 .. {len(ids) - 1} without holes, got {ids[name]} "
                f"({name!r}) instead of {number}; a new token would get an id that is taken: give "
                "each missing id a piece, such as `[unused0]`"
            )
    return names


def _check_added(
    model: tokenizers.Tokenizer, spec: dict[str, Any], hidden: dict[str, Any], where: str
) -> None:
    """Raise ConfigurationError if the library gives an added token another id than the file."""
    for entry, private in zip(spec["added_tokens"], hidden["added_tokens"], strict=True):
        if (library_id := model.token_to_id(private["content"])) != entry["id"]:
            raise ConfigurationError(
                f"{where}: the added token {entry['content']!r} has the id {entry['id']} in the "
                f"file, but {library_id} in the `tokenizers` library: the ids of a model's tokens "
                "must not change"
            )
