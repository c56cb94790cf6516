"""Words as tokens, as before subword models; a word outside the vocabulary is the unknown token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES, special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import FrequencyOptions, special_piece_roles
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson


class Word(TokenizerJson):
    """The most frequent words, punctuation marks and white space characters; a word keeps the space before it.

    Example:
        "the taaaasty cat." becomes `the` `<unk>` ` cat` `.` if the training text has no "taaaasty".
    """

    SAMPLE_BYTES: ClassVar[int] = 10**9
    LOSS: ClassVar[str] = "words that the training text does not have often enough"

    Options: TypeAlias = FrequencyOptions

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Word:
        """Count the words and write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        cutter = pre_tokenizers.Split(Regex(r" ?\w+| ?[^\w\s]|\s"), "isolated")
        counts = Counter(word for text in training_texts(texts) for word, _ in cutter.pre_tokenize_str(text))
        reserved = special_pieces(options.reserved)
        frequent = counts.most_common(options.size - len(reserved))
        words = [word for word, count in frequent if count >= options.min_frequency]
        ids = {name: token for token, name in enumerate([*reserved, *words])}
        model = Tokenizer(models.WordLevel(ids, unk_token=SPECIAL_PIECES["unk"]))
        model.pre_tokenizer, model.decoder = cutter, decoders.Fuse()
        return cls.write(folder, model, special_piece_roles(options.reserved))
