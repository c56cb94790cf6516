"""Whole-word masking: masked LM that takes words, never a part of one."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import STRICT
from clozeline.pipeline.corrupt.objectives._masked_rows import Budget, MaskedRow, RoleOptions
from clozeline.pipeline.kernels.whole_words import find_words, positions_of_words, run_starts, take_words, unit_starts
from clozeline.pipeline.rows import Ragged


class WholeWordMasking(MaskedRow):
    """Whole-word masking of the BERT repository (2019; Chinese: arXiv 1906.08101): labels are all tokens of some words.

    The budget is that of masked LM, k = max(1, round half up of mask_rate x m) tokens. Words come in random order, and
    each is taken if it fits the remaining budget, so in the end no remaining word fits. A row whose words are all
    longer than k exceeds the budget: its first word is taken whole. Words start where the tokenizer says, at the start
    of a row and after a special token. Features: the framed row, K label positions (ascending) and the K original ids.

    Example (mask_rate 0.5, so 3 of 6; order unbelievable, cat, the, sat; roles [MASK]):
        x       the un believ able cat sat
        input   [CLS] the [MASK] [MASK] [MASK] cat sat [SEP]
        labels  2 un, 3 believ, 4 able
    """

    name: ClassVar[str] = "whole_word_masking"
    VERSION: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(RoleOptions):
        """Parameters of whole-word masking."""

        role_unit: Literal["token", "word"] = "token"
        """Unit that draws one role: each token (BERT), or each word for all its tokens."""

    options: Options

    def select(self, keys: UInt64, ids: Ragged, budget: Budget) -> Ragged:
        """Return tokens of whole words."""
        words = find_words(ids, self.vocabulary.opens_word(ids.values), self.special)
        taken = take_words(keys, words, budget(words.tokens))
        return positions_of_words(words, taken, ids)

    def role_owner(self, original: Ragged, places: Ragged) -> Int64 | None:
        """Return the first token of each word: taken words are whole, so each opens at a word start or after a gap."""
        if self.options.role_unit == "token":
            return None
        return unit_starts(self.vocabulary.opens_word(original.values) | run_starts(places.values))
