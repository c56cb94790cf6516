"""Masked language modelling: BERT's 80/10/10 masks over single rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.example import Example, Feature, Ragged, SampleBatch
from pipeline.kernels import choose, roles
from pipeline.objectives import Draws, Objective, Skip
from pipeline.rates import Rate, count, parts_per_million
from pipeline.vocabulary import Vocabulary
from pipeline.weaving import IdSet, framed

__all__ = ["MaskedLM"]


class MaskedLM(Objective):
    """Masked LM of BERT (arXiv 1810.04805) and RoBERTa (arXiv 1907.11692: packed rows, a variant per epoch).

    k = max(1, round half up of rate x m) of the m content tokens that are not special are labels, chosen without
    replacement. Each becomes [MASK], a random id or itself, by its own draw. Features: the framed row
    `[CLS] x [SEP]` of L tokens, K label positions in it (ascending) and the K original ids.

    Example (rate 0.5, so 2 of 4; roles unchanged, [MASK]):
        x       It is raining .
        input   [CLS] It is [MASK] . [SEP]
        labels  1 It, 3 raining
    """

    name: ClassVar[str] = "masked_lm"
    VERSION: ClassVar[int] = 1
    architectures: ClassVar[tuple[str, ...]] = ("encoder",)
    heads: ClassVar[tuple[str, ...]] = ("masked_lm",)

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Parameters of masked LM."""

        max_length: Annotated[int, Field(ge=3)] = 512
        """Tokens in a full row, [CLS] and [SEP] included."""
        rate: Rate = 0.15
        """Share of the maskable tokens that become labels."""
        mask_share: Rate = 0.8
        """Share of labels whose token becomes [MASK]."""
        random_share: Rate = 0.1
        """Share of labels whose token becomes a random id; the rest stays as it is."""
        max_labels: Annotated[int, Field(ge=1)] | None = None
        """Most labels in a row (BERT: 20 at 128 tokens, 77 at 512); none: no bound."""
        grouping: Literal["packed", "document"] = "packed"
        """Grouping to read."""
        separator: Literal["none", "sep", "eos"] = "sep"
        """Special token between the documents of packed rows."""
        cross_documents: bool = True
        """Whether attention crosses documents in packed rows; false stores `document_starts`."""

        def __post_init__(self) -> None:
            """Check what concerns several options."""
            if parts_per_million(self.mask_share) + parts_per_million(self.random_share) > 1_000_000:
                raise ValueError(f"mask_share {self.mask_share} + random_share {self.random_share} exceeds 1")
            if self.rate == 0:
                raise ValueError("rate 0 leaves no label; expected more than 0")
            if not self.cross_documents and self.grouping != "packed":
                raise ValueError("cross_documents: false concerns packed rows; a document row holds one document")

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._cls, self._sep, self._mask = self.id_of("cls"), self.id_of("sep"), self.id_of("mask")
        self._special = IdSet(vocabulary.special)
        self._rate = parts_per_million(options.rate)
        self._mask_ppm = parts_per_million(options.mask_share)
        self._random_ppm = parts_per_million(options.random_share)
        self.grouping = self.grouped(options.grouping, options.max_length - 2, options.separator)
        features = (
            Feature("input_ids", "ids", 1, "framed row, corrupted"),
            Feature("label_positions", "uint16", 1, "ascending places in input_ids of the labels"),
            Feature("label_ids", "ids", 1, "original ids at label_positions"),
        )
        starts = Feature("document_starts", "uint16", 1, "places in input_ids where documents start, first 0")
        self.features = features if options.cross_documents else (*features, starts)

    def refuse(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A row of nothing but specials has nothing to mask."""
        ids = samples.columns["ids"]
        if self._special.meets(ids.values):
            special = self._special.mask(ids.values)
            before = np.concatenate((np.zeros(1, np.int64), np.cumsum(~special, dtype=np.int64)))
            maskable = before[ids.offsets[1:]] - before[ids.offsets[:-1]]
            skips[(skips == Skip.NONE) & (maskable == 0)] = Skip.NO_MASKABLE
        return skips

    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """Choose positions, then roles, for all rows at once."""
        ids = samples.columns["ids"]
        keys = draws.keys(self.label)
        maskable, first = self._maskable(ids)
        labels = count(np.diff(first), self._rate, self.options.max_labels or np.diff(first))
        chosen = choose(keys, np.diff(first), labels)
        places = chosen.values + np.repeat(first[:-1], labels)
        if maskable is not None:
            places = maskable[places]
        label_ids = Ragged(ids.values[places], chosen.offsets)
        framed_ids = framed(ids, self._cls, self._sep)
        row_starts = framed_ids.offsets[:-1] + 1
        places += np.repeat(row_starts - ids.offsets[:-1], labels)
        framed_ids.values[places] = roles(
            keys, label_ids, mask=self._mask, replaceable=self.vocabulary.replaceable, mask_ppm=self._mask_ppm,
            random_ppm=self._random_ppm,
        )  # fmt: skip
        positions = (places - np.repeat(framed_ids.offsets[:-1], labels)).astype(np.uint16)
        columns = {
            "input_ids": framed_ids,
            "label_positions": Ragged(positions, chosen.offsets),
            "label_ids": label_ids,
        }
        if not self.options.cross_documents:
            columns["document_starts"] = framed_starts(samples.columns["document_starts"])
        return columns

    def _maskable(self, ids: Ragged) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Places of maskable tokens (None: all) and the bounds of each row among them."""
        if not self._special.meets(ids.values):
            return None, ids.offsets
        maskable = np.flatnonzero(~self._special.mask(ids.values))
        return maskable, np.searchsorted(maskable, ids.offsets)

    def framed(self, ids: NDArray[Any]) -> NDArray[Any]:
        """`[CLS] x [SEP]`."""
        return np.concatenate(([self._cls], ids, [self._sep])).astype(self.vocabulary.id_dtype)

    def uncorrupt(self, example: Example) -> NDArray[Any]:
        """Put the labels back."""
        original = example["input_ids"].copy()
        original[example["label_positions"]] = example["label_ids"]
        return original


def framed_starts(starts: Ragged) -> Ragged:
    """Starts in a content row as places in the framed row; the head belongs to the first."""
    values = starts.values + np.uint16(1)
    values[starts.offsets[:-1]] = 0
    return Ragged(values, starts.offsets)
