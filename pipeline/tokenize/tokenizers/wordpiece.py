"""WordPiece (arXiv 1609.08144, 1810.04805): greedy longest-match-first split of words into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words, learn_merges
from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES, special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    check_room,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_LONGEST_WORD: Final = 200
_MARK: Final = "##"


class WordPiece(TokenizerJson):
    """WordPiece as the `tokenizers` library encodes it for BERT; training merges pairs as `bpe` does.

    Control characters are removed; Chinese characters and punctuation marks are separate words; `lower_case` strips
    accents too. A word over 200 characters, or that the pieces cannot spell, is the unknown token. White space is not
    preserved: `decode` writes one space before each word.

    Example:
        "unaffable!" becomes `una` `##ffa` `##ble` `!`, and "[MASK]" becomes `[` `mask` `]`, never the special.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**8
    LOSS: ClassVar[str] = "white space, control characters, words that its letters cannot spell, and what it lowers"

    @config_class
    class Options(FrequencyOptions):
        lower_case: bool = False
        """lower-case the text and strip accents"""

    @classmethod
    def check_size(cls, options: Options) -> None:
        check_room("wordpiece", options)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> WordPiece:
        """Train by merges of frequent pairs, write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        reserved = special_pieces(options.reserved)
        cutter = library_model(reserved, SPECIAL_PIECES["unk"], lower_case=options.lower_case)
        counts = count_words(
            word
            for text in training_texts(texts)
            for word, _ in cutter.pre_tokenizer.pre_tokenize_str(cutter.normalizer.normalize_str(text))
        )
        letters = count_letters(counts, _letters)
        alphabet = letters[: options.size - len(reserved)]
        known = set(alphabet)
        spelled = {word: count for word, count in counts.items() if known.issuperset(_letters(word))}
        room = options.size - len(reserved) - len(alphabet)
        merges = learn_merges(spelled, _letters, room, join=_join, lengths=_length, min_frequency=options.min_frequency)
        names = list(dict.fromkeys([*reserved, *alphabet, *(_join(*pair) for pair in merges)]))
        model = library_model(names, SPECIAL_PIECES["unk"], lower_case=options.lower_case)
        return cls.write(folder, model, special_piece_roles(options.reserved, lower_case=options.lower_case))


def library_model(names: Sequence[str], unknown: str, *, lower_case: bool) -> Tokenizer:
    """Return BERT's WordPiece with these pieces, in order of their ids."""
    ids = {name: token for token, name in enumerate(names)}
    model = Tokenizer(models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=_LONGEST_WORD))
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
