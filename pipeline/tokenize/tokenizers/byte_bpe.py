"""Byte-level BPE as in GPT-2: 256 bytes and the most frequent merges (arXiv 1508.07909)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from clozeline.configuration.config import config_class
from clozeline.memory import find_cores
from clozeline.pipeline.tokenize.tokenizers._pieces import TrainableTokenizer, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_THREADS: Final = "TOKENIZERS_PARALLELISM"
"""Variable that switches the threads of the library on and off."""
_DIGITS: Final = {"three": Regex(r"\p{N}{1,3}"), "single": Regex(r"\p{N}")}


class ByteBpe(TokenizerJson, TrainableTokenizer):
    """Byte-level BPE, trained by the `tokenizers` library; lossless.

    A text is first split into words (with the space before), numbers, punctuation and white space.
    Merges stay inside these parts. Ties in training are decided by id, so training is
    deterministic.

    Example:
        "the mask" becomes the pieces `the` `Ġmask`. The text "<mask>" becomes `<` `mask` `>`, never
        the special token.
    """

    SAMPLE_BYTES = 10**9
    MIN_PIECES = (256, "256 bytes")
    LOSS = ""

    @config_class
    class Options(FrequencyOptions):
        digits: Literal["runs", "three", "single"] = "runs"
        """longest part of a number that merges join: a run of digits as in GPT-2, three digits
        (Llama 3, OLMo 2), or a single one"""

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> ByteBpe:
        """Train the merges and write `tokenizer.json`.

        Raises:
            ConfigurationError: `size` is too small.
        """
        cls.check_size(options)
        model = Tokenizer(models.BPE())
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        digits = _DIGITS.get(options.digits)
        model.pre_tokenizer = (
            words
            if digits is None
            else pre_tokenizers.Sequence([pre_tokenizers.Split(digits, "isolated"), words])
        )
        model.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=options.size,
            min_frequency=options.min_frequency,
            special_tokens=options.special_pieces(),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )

        # Workers have switched off the threads of the library, which count the words. It reads
        # their number at its first parallel call, and the switch at each call.
        before = os.environ.get(_THREADS, "false")
        os.environ.setdefault("RAYON_NUM_THREADS", str(find_cores()))
        os.environ[_THREADS] = "true"
        try:
            model.train_from_iterator(training_texts(texts), trainer)
        finally:
            os.environ[_THREADS] = before
        return cls.write(folder, model, special_piece_roles(options))
