"""WordPiece (arXiv 1609.08144, 1810.04805): split words into their longest pieces, greedily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    SPECIAL_PIECES,
    TrainableTokenizer,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_MOST_WORD_CHARACTERS: Final = 200


class WordPiece(TokenizerJson, TrainableTokenizer):
    """WordPiece as in BERT, encoded and trained by the `tokenizers` library.

    Control characters are removed. Chinese characters and punctuation marks are separate words.
    `lower_case` also strips accents. A word becomes the unknown token if it has more than 200
    characters, or if the pieces cannot spell it. White space is lost: `decode` writes one space
    before each word.

    Example:
        "unaffable!" becomes `una` `##ffa` `##ble` `!`. The text "[MASK]" becomes `[` `mask` `]`,
        never the special token.
    """

    VERSION = 2
    SAMPLE_BYTES = 10**8
    LOSS = (
        "several spaces become one, control characters are removed, words with rare letters become "
        "the unknown token, and with lower_case capitals and accents are lost"
    )

    @config_class
    class Options(FrequencyOptions):
        lower_case: bool = False
        """lower-case the text and strip accents"""

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> WordPiece:
        """Train by merging frequent pairs, and write `tokenizer.json`.

        Raises:
            ConfigurationError: `size` is too small.
        """
        cls.check_size(options)
        ids = {name: token for token, name in enumerate(options.special_pieces())}
        unknown = SPECIAL_PIECES["unk"]
        model = Tokenizer(
            models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=_MOST_WORD_CHARACTERS)
        )
        model.normalizer = normalizers.BertNormalizer(lowercase=options.lower_case)
        model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        model.decoder = decoders.WordPiece(cleanup=False)

        # the words that the most frequent letters can spell
        words: Counter[str] = Counter()
        for text in training_texts(texts):
            normal = model.normalizer.normalize_str(text)
            words.update(word for word, _ in model.pre_tokenizer.pre_tokenize_str(normal))

        letters = count_letters(words, _letters)[: options.size - len(ids)]
        known = set(letters)
        spelled = Counter(
            {word: count for word, count in words.items() if known.issuperset(_letters(word))}
        )

        # all letters are given: the library would number others in a different order each time
        trainer = trainers.WordPieceTrainer(
            vocab_size=options.size,
            min_frequency=options.min_frequency,
            special_tokens=[*ids, *letters],
            limit_alphabet=0,
            show_progress=False,
        )

        model.train_from_iterator(spelled.elements(), trainer)
        return cls.write(folder, model, special_piece_roles(options, lower_case=options.lower_case))


def _letters(word: str) -> list[str]:
    """Return the pieces of the letters in a word, which the library also wants without `##`."""
    return [word[0], *(piece for letter in word[1:] for piece in (letter, f"##{letter}"))]
