"""Masked language modelling: BERT's 80/10/10 masks over single rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.groupings import Least
from pipeline.kernels.ragged import scalars
from pipeline.objectives._masked_rows import MASKED_FEATURES, MaskedRow, RoleOptions
from pipeline.rows import Feature, Ragged, SampleBatch
from pipeline.seeding import LABELS, below, words
from pipeline.vocabulary import Vocabulary

__all__ = ["MaskedLM"]

UInt64: TypeAlias = NDArray[np.uint64]
Attention = Literal["bidirectional", "left_to_right", "right_to_left", "prefix"]

_ATTENTIONS: Final[tuple[Attention, ...]] = ("bidirectional", "left_to_right", "right_to_left", "prefix")
_ATTENTION_FEATURES: Final = (
    Feature("attention", "uint8", 0, "what place i may read: 1 places j <= i, 2 places j >= i, 3 j <= i or j < prefix"),
    Feature("prefix_length", "uint16", 0, "tokens of input_ids that every place may read, 0 unless attention is 3"),
)


class MaskedLM(MaskedRow):
    """Masked LM of BERT (arXiv 1810.04805) and RoBERTa (arXiv 1907.11692: packed rows, a variant per epoch).

    k = max(1, round half up of mask_rate x m) of the m content tokens that are not special are labels, chosen without
    replacement. Each becomes [MASK], a random id or itself, by its own draw. Features: the framed row
    `[CLS] x [SEP]` of L tokens, K label positions in it (ascending) and the K original ids. UniLM (arXiv 1905.03197)
    restricts what a place may read: then `attention` and `prefix_length` say how; the labels do not depend on it. The
    prefix ends at any place with content on both sides, each equally likely, so such a row needs two tokens.

    Example (mask_rate 0.5, so 2 of 4; roles unchanged, [MASK]):
        x       It is raining .
        input   [CLS] It is [MASK] . [SEP]
        labels  1 It, 3 raining
    """

    name: ClassVar[str] = "masked_lm"
    VERSION: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(RoleOptions):
        """Parameters of masked LM."""

        attention: Attention = "bidirectional"
        """What a place may read (UniLM); all but `bidirectional` are stored with the row."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        if options.attention != "bidirectional":
            self.own_features = (*MASKED_FEATURES, *_ATTENTION_FEATURES)
        if options.attention == "prefix":
            self.least = Least(tokens=2)

    def more(self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]) -> Mapping[str, Ragged]:
        """The mode of attention, and where its prefix ends in the framed row."""
        attention = self.options.attention
        if attention == "bidirectional":
            return {}
        prefix = np.zeros(len(samples), dtype=np.int64)
        if attention == "prefix":
            cuts = samples.columns["ids"].lengths - 1
            prefix = 2 + below(words(keys, LABELS, 1)[:, 0] >> np.uint64(32), cuts.astype(np.uint64))
        mode = np.full(len(samples), _ATTENTIONS.index(attention), dtype=np.uint8)
        return {"attention": scalars(mode, np.uint8), "prefix_length": scalars(prefix, np.uint16)}
