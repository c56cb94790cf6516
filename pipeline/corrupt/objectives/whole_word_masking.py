"""Whole-word masking: masked LM that masks all tokens of a word together."""

from typing import Literal

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._masked_rows import Budget, MaskedRow, RoleOptions
from clozeline.pipeline.kernels.sampling import rows_of
from clozeline.pipeline.kernels.whole_words import choose_words, find_words, run_starts, unit_starts
from clozeline.pipeline.rows import Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary


class WholeWordMasking(MaskedRow):
    """Whole-word masking of the BERT repository (2019; Chinese: arXiv 1906.08101).

    All tokens of a word are masked together. A row has as many labels as in masked LM, k tokens:
    mask_rate x m, rounded half up, at least 1. Words are visited in random order, and masked if
    they fit the remaining budget. When no other word fits, the first tokens of the next word use
    the budget up. A word longer than k, such as a protein, is treated as words of one token each.

    Segmenters define where words start (`encode.words`, such as jieba for Chinese), else the
    tokenizer does. A word also starts at the start of a row and after a special token. Features:
    the row, the K label positions (ascending), and the K original ids.

    Example (mask_rate 0.5, so 3 of 6; order unbelievable, cat, the, sat; all [MASK]):
        x       the un believ able cat sat
        input   [CLS] the [MASK] [MASK] [MASK] cat sat [SEP]
        labels  2 un, 3 believ, 4 able
    """

    VERSION = 2
    reads_words = True

    @config_class
    class Options(RoleOptions):
        role_unit: Literal["token", "word"] = "token"
        """Unit that becomes [MASK] or random, or stays unchanged, as one: a token (BERT), or a
        word."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        vocabulary.require_words(self.label)

    def choose_labels(self, samples: SampleBatch, keys: UInt64, budget: Budget) -> Ragged:
        ids = samples.columns["ids"]
        words = find_words(ids, self.opens_word(samples), self.special)
        return choose_words(keys, words, budget(words.tokens), ids)

    def role_owner(
        self, original: Ragged, flat_positions: Ragged, samples: SampleBatch
    ) -> Int64 | None:
        """Return for each label the first label of its word; None if each token is drawn alone."""
        if self.options.role_unit == "token":
            return None
        # flat positions without special tokens: two of each earlier row, one of the same row
        content = flat_positions.values - (1 + 2 * rows_of(flat_positions))
        return unit_starts(self.opens_word(samples)[content] | run_starts(flat_positions.values))
