"""Words as tokens, as before subword models; a word outside the vocabulary becomes `<unk>`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from clozeline.configuration.config import config_class
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    SPECIAL_PIECES,
    TrainableTokenizer,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_WITH_SPACES: Final = r" ?\w+| ?[^\w\s]|\s"
_CLITIC: Final = r"(?i:n['’]t|(?<=\w)['’](?:s|m|d|re|ve|ll))\b"
_WITH_CLITICS: Final = rf"\w+?(?=(?i:n['’]t)\b)|{_CLITIC}|\w+|[^\w\s]"
"""Words, clitics and punctuation marks, without the white space between them."""


class Word(TokenizerJson, TrainableTokenizer):
    """The most frequent words, punctuation marks and white space characters.

    A word includes the space before it. With `clitics`, clitics are words as in the Penn Treebank,
    and white space is dropped: `decode` writes one space before each word.

    Example:
        "the taaaasty cat." becomes `the` `<unk>` ` cat` `.` if the training text has no "taaaasty";
        with `clitics`, "It's a hat, isn't it?" becomes `It` `'s` `a` `hat` `,` `is` `n't` `it` `?`.
    """

    SAMPLE_BYTES = 10**9
    LOSS = (
        "words that are rare in the training text become the unknown token; with clitics, white "
        "space becomes single spaces"
    )

    @config_class
    class Options(FrequencyOptions):
        clitics: bool = False
        """split off English clitics (It 's, is n't, they 'll), and drop spaces: "hat" and " hat"
        are the same word"""

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Word:
        """Count the words and write `tokenizer.json`.

        Raises:
            ConfigurationError: `size` is too small.
        """
        cls.check_size(options)

        # the most frequent words after the special pieces
        cutter = pre_tokenizers.Split(Regex(_WITH_SPACES), "isolated")
        if options.clitics:
            cutter = pre_tokenizers.Split(Regex(_WITH_CLITICS), "removed", invert=True)
        counts: Counter[str] = Counter()
        for text in training_texts(texts):
            counts.update(word for word, _ in cutter.pre_tokenize_str(text))
        reserved = options.special_pieces()
        frequent = counts.most_common(options.size - len(reserved))
        words = [word for word, count in frequent if count >= options.min_frequency]
        ids = {name: token for token, name in enumerate([*reserved, *words])}

        model = Tokenizer(models.WordLevel(ids, unk_token=SPECIAL_PIECES["unk"]))
        model.pre_tokenizer = cutter
        model.decoder = decoders.WordPiece(cleanup=False) if options.clitics else decoders.Fuse()
        return cls.write(folder, model, special_piece_roles(options))
