"""Byte-pair encoding of characters as in textbooks (arXiv 1508.07909), with an end-of-word mark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words, learn_merges
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import SPACED
from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES, special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    check_room,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_END: Final = "_"
"""End-of-word mark of textbooks."""
_UNDERSCORE: Final = "\0"
"""Replaces an underscore of the text, which would be confused with the mark and has no piece."""
_SPACE: Final = r"\s\x{1c}-\x{1f}"
"""White space of Python, at which training splits words."""


class Bpe(TokenizerJson):
    """Merges the most frequent pair; in a tie, the first one in the corpus as merged so far.

    Words are separated by white space, which decodes to a single space. An underscore is the unknown token.

    Example:
        low x5, lowest x2, newer x6, wider x3, new x2 give er, er_, ne, new, lo, low, newer_, low_; then "lower" is
        `low` `er_`.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**8
    LOSS: ClassVar[str] = "white space but one space, underscores, and characters that the training text does not have"
    CHUNKS: ClassVar[re.Pattern[str]] = SPACED

    Options: TypeAlias = FrequencyOptions

    @classmethod
    def check_size(cls, options: Options) -> None:
        check_room("bpe", options, 2)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Bpe:
        """Train the merges and write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        counts = count_words(word for text in training_texts(texts) for word in text.split())
        marked = {word + _END: count for word, count in counts.items() if _END not in word}
        reserved = special_pieces(options.reserved)
        room = options.size - len(reserved)
        letters = count_letters(marked, list)[:room]
        known = set(letters)
        spelled = {word: count for word, count in marked.items() if known.issuperset(word)}
        merges = learn_merges(spelled, list, room - len(letters), banned=reserved, min_frequency=options.min_frequency)
        names = dict.fromkeys([*reserved, *letters, *(left + right for left, right in merges)])
        ids = {name: token for token, name in enumerate(names)}
        model = Tokenizer(models.BPE(ids, merges, unk_token=SPECIAL_PIECES["unk"]))
        ends = normalizers.Replace(Regex(f"(?<=[^{_SPACE}])(?![^{_SPACE}])"), _END)
        model.normalizer = normalizers.Sequence([normalizers.Replace(_END, _UNDERSCORE), ends])
        model.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{_SPACE}]+"), "removed")
        model.decoder = decoders.BPEDecoder(_END)
        return cls.write(folder, model, special_piece_roles(options.reserved))
