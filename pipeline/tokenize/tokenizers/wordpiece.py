"""WordPiece (arXiv 1609.08144, 1810.04805): greedy longest-match-first split of words into pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words, learn_merges
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import BETWEEN_SPACES, ChunkEncoder, Tokens
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, TableTokenizer, special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    check_room,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers._wordpiece_library import HIDDEN, tokens_of_chunks
from clozeline.repair import repair_of

_LONGEST_WORD: Final = 200
_HAN: Final = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)
_MARK: Final = "##"


class WordPiece(TableTokenizer):
    """WordPiece with the ids of BERT's published code for its `vocab.txt`; training merges pairs as `bpe` does.

    Control characters are removed; Chinese characters and punctuation marks are separate words; `lower_case` strips
    accents too. A word over 200 characters, or that the pieces cannot spell, is the unknown token. White space is not
    preserved: `decode` writes one space before each word.

    Example:
        "unaffable!" becomes `una` `##ffa` `##ble` `!`, and "[MASK]" becomes `[` `mask` `]`, never the special.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**8
    FILE: ClassVar[str] = "vocab.txt"
    LOSS: ClassVar[str] = "white space, control characters, words that its letters cannot spell, and what it lowers"

    @config_class
    class Options(FrequencyOptions):
        lower_case: bool = False
        """lower-case the text and strip accents"""

    def __init__(self, names: Sequence[str], facts: Published) -> None:
        self._facts = facts
        self._pieces = list(names)
        bare = facts.bare()
        self._table = PieceTable([None if name in bare else _text_of(name).encode() for name in names], names)
        self.vocabulary = facts.vocabulary(self._table, {"name": "wordpiece", "pieces": names})
        self._ids = {name: number for number, name in enumerate(self._pieces) if name not in bare}
        self._unknown = self.vocabulary.id_of("unk", "WordPiece")
        self._longest = max(map(len, self._ids), default=0)
        hidden = [HIDDEN + name if name in bare else name for name in names]
        self._library = _library_model(hidden, hidden[self._unknown], lower_case=facts.lower_case)
        self._encoder = ChunkEncoder(BETWEEN_SPACES, self._tokens, self.vocabulary.id_dtype, self._together)

    @staticmethod
    def names(path: Path) -> list[str]:
        """Return the pieces of a `vocab.txt`, one per line, in order of their ids."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
            if lines == [""]:
                raise ValueError("it is empty")
        except (OSError, ValueError) as error:
            raise IntegrityError(
                f"{path}: not a WordPiece vocabulary, one piece a line ({error}); {repair_of(path)}"
            ) from error
        return lines[:-1] if lines[-1] == "" else lines

    @classmethod
    def load(cls, folder: Path) -> WordPiece:
        try:
            return cls(cls.names(folder / cls.FILE), Published.load(folder))
        except ConfigurationError as error:
            raise IntegrityError(
                f"{folder / cls.FILE}: not a vocabulary of its facts ({error}); {repair_of(folder / cls.FILE)}"
            ) from error

    @classmethod
    def check_size(cls, options: Options) -> None:
        check_room("wordpiece", options)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> WordPiece:
        """Train by merges of frequent pairs and write `vocab.txt`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        lower = options.lower_case
        chunks = (match[0] for text in training_texts(texts) for match in BETWEEN_SPACES.finditer(text))
        counts = count_words(word for chunk in chunks for word, _ in _words(chunk, lower_case=lower))
        letters = count_letters(counts, _letters)
        reserved = special_pieces(options.reserved)
        alphabet = letters[: options.size - len(reserved)]
        known = set(alphabet)
        spelled = {word: count for word, count in counts.items() if known.issuperset(_letters(word))}
        room = options.size - len(reserved) - len(alphabet)
        merges = learn_merges(spelled, _letters, room, join=_join, lengths=_length, min_frequency=options.min_frequency)
        names = list(dict.fromkeys([*reserved, *alphabet, *(_join(*pair) for pair in merges)]))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / cls.FILE).write_text("\n".join(names) + "\n", encoding="utf-8")
        facts = special_piece_roles(options.reserved, lower_case=lower)
        facts.save(folder)
        return cls(names, facts)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self._encoder.encode(texts)

    def _together(self, chunks: Sequence[str]) -> list[Tokens]:
        """Return the tokens of chunks; for ASCII the library follows the published code and is faster."""
        plain = [chunk for chunk in chunks if chunk.isascii()]
        known = dict(zip(plain, tokens_of_chunks(self._library, self.vocabulary.id_dtype, plain), strict=True))
        return [known.get(chunk) or self._tokens(chunk) for chunk in chunks]

    def _tokens(self, chunk: str) -> Tokens:
        ids: list[int] = []
        starts: list[int] = []
        for word, indices in _words(chunk, lower_case=self._facts.lower_case):
            pieces = self._cut(word)
            ids += [token for token, _ in pieces]
            starts += [indices[at] for _, at in pieces]
        return ids, starts

    def _cut(self, word: str) -> list[tuple[int, int]]:
        """Return the id of each piece and its index in the word."""
        pieces: list[tuple[int, int]] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            prefix = _MARK if start else ""
            for end in range(min(len(word), start + self._longest - len(prefix)), start, -1):
                if (token := self._ids.get(prefix + word[start:end])) is not None:
                    break
            else:
                return [(self._unknown, 0)]
            pieces.append((token, start))
            start = end
        return pieces or [(self._unknown, 0)]

    def decode(self, ids: Iterable[int]) -> str:
        return self._table.decode(ids).removeprefix(" ")

    def words(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the words of texts, lower-cased like the text; no piece crosses their boundaries."""
        for text in training_texts(texts):
            for chunk in BETWEEN_SPACES.finditer(text):
                yield from (word for word, _ in _words(chunk[0], lower_case=self._facts.lower_case))

    def cut(self, word: str) -> list[str]:
        """Return the pieces of a word; empty for the unknown token."""
        ids = [token for token, _ in self._cut(word)]
        return [] if self._unknown in ids else [self._table.names[token] for token in ids]

    @staticmethod
    def join_pieces(left: str, right: str) -> str:
        """Return the merge of two pieces."""
        return _join(left, right)

    def extend(self, merges: Sequence[tuple[str, str]], folder: Path) -> WordPiece:
        """Write the vocabulary with the pieces of further merges at the end; existing ids stay."""
        folder.mkdir(parents=True, exist_ok=True)
        names = [*self._pieces, *(_join(*pair) for pair in merges)]
        (folder / self.FILE).write_text("\n".join(names) + "\n", encoding="utf-8")
        self._facts.save(folder)
        return self.load(folder)

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        return _library_model(self._pieces, self._table.names[self._unknown], lower_case=self._facts.lower_case)


def _library_model(names: Sequence[str], unknown: str, *, lower_case: bool) -> tokenizers.Tokenizer:
    vocabulary = {name: number for number, name in enumerate(names)}
    model = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=_LONGEST_WORD)
    )
    model.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece(cleanup=False)
    return model


def _letters(word: str) -> list[str]:
    return [word[0], *(_MARK + character for character in word[1:])]


def _join(left: str, right: str) -> str:
    return left + right.removeprefix(_MARK)


def _length(piece: str) -> int:
    return len(piece) - len(_MARK) if piece.startswith(_MARK) and piece != _MARK else len(piece)


def _text_of(piece: str) -> str:
    return piece.removeprefix(_MARK) if piece.startswith(_MARK) and piece != _MARK else f" {piece}"


def _words(chunk: str, *, lower_case: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield the words of a chunk, and the index in the chunk of each of their characters."""
    kept = [(character, index) for index, character in enumerate(chunk) if not _is_control(character)]
    text = "".join(character for character, _ in kept)
    for begin, end in _between(_HAN, text):
        token, indices = text[begin:end], [index for _, index in kept[begin:end]]
        if lower_case:
            token, indices = _lower(token, indices)
        start = 0
        for at, character in enumerate(token):
            if _is_punctuation(character):
                if at > start:
                    yield token[start:at], indices[start:at]
                yield character, indices[at : at + 1]
                start = at + 1
        if start < len(token):
            yield token[start:], indices[start:]


def _between(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each match and of the text between matches."""
    start = 0
    for match in pattern.finditer(text):
        if match.start() > start:
            yield start, match.start()
        yield match.span()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def _lower(token: str, indices: Sequence[int]) -> tuple[str, list[int]]:
    """Lower-case a complete token, because final sigmas depend on their neighbors, and strip accents."""
    lowered = token.lower()
    sources = [index for character, index in zip(token, indices, strict=True) for _ in character.lower()]
    spread = [index for character, index in zip(lowered, sources, strict=True) for _ in _decompose(character)]
    kept = [
        (character, index)
        for character, index in zip(unicodedata.normalize("NFD", lowered), spread, strict=True)
        if unicodedata.category(character) != "Mn"
    ]
    return "".join(character for character, _ in kept), [index for _, index in kept]


@lru_cache(1 << 16)
def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character)


@lru_cache(1 << 16)
def _is_control(character: str) -> bool:
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


@lru_cache(1 << 16)
def _is_punctuation(character: str) -> bool:
    """Return whether a character is a separate word: Unicode category P, and ASCII symbols."""
    return (character.isascii() and not character.isalnum()) or unicodedata.category(character).startswith("P")
