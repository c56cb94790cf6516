"""Words as tokens, as before subword models; a word outside the vocabulary is the unknown token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import tokenizers
from tokenizers import models, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder
from clozeline.pipeline.tokenize.tokenizers._json_vocabulary import JsonVocabulary
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import FrequencyOptions

_WORD: Final = re.compile(r" ?\w+| ?[^\w\s]|\s")


class Word(JsonVocabulary):
    """The most frequent words, punctuation marks and white space characters; a word keeps the space before it.

    Example:
        "the taaaasty cat." becomes `the` `<unk>` ` cat` `.` if the training text has no "taaaasty".
    """

    SAMPLE_BYTES: ClassVar[int] = 10**9
    NAME: ClassVar[str] = "word"
    LOSS: ClassVar[str] = "words that the training text does not have often enough"

    Options: TypeAlias = FrequencyOptions

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        ids, unknown = self._ids, self._unknown
        self._encoder = ChunkEncoder(_WORD, lambda word: ([ids.get(word, unknown)], [0]), self.vocabulary.id_dtype)

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Word:
        """Count the words and write `pieces.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        counts = count_words(match[0] for text in training_texts(texts) for match in _WORD.finditer(text))
        frequent = [word for word, count in counts.items() if count >= options.min_frequency]
        room = options.size - len(special_pieces(options.reserved))
        words = sorted(frequent, key=counts.__getitem__, reverse=True)[:room]
        return cls.write(folder, {"reserved": options.reserved, "pieces": words})

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        ids = {name: token for token, name in enumerate(self._table.names)}
        model = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=self._table.names[self._unknown]))
        model.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(_WORD.pattern), "isolated")
        return model
