"""Contrastive learning from two views of a row (arXiv 2104.08821, 2102.08473, 2007.01852)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.arrays import Int64
from clozeline.columns import IGNORED, LENGTHS, SECOND_VIEW
from clozeline.configuration.config import config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.errors import BatchError
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.key_types import UNIT_RANGE, refuse_empty_range
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head, StoredColumns
from clozeline.model.layers.pooling import Pooler, pool
from clozeline.model.loss import cross_entropy_sum

_READ_BY_CONTRAST: Final = ("temperature", "group_size", "margin")
_READS: Final = {
    "other": _READ_BY_CONTRAST,
    "bidirectional": _READ_BY_CONTRAST,
    "both": _READ_BY_CONTRAST,
    "none": ("range",),
}
"""Keys that only some values of `negatives` read."""


class SimilarityHead(Head):
    """InfoNCE over the cosines of pooled vectors, within groups of `group_size` consecutive rows.

    `negatives: other` compares the first view of a row with the second views of its group (SimCSE);
    a row with an equal first or second view is not a negative. `bidirectional` adds the loss of the
    second view against the first views (LaBSE). `both` compares each of the group's 2g vectors with
    the 2g - 2 vectors of other rows, and averages a row's two losses (COCO-LM). `margin` is
    subtracted from the cosine of the two views of a row. Three kinds of rows are neither compared
    nor negatives: those of weight 0, those without a second view, and those with a `target` [B]
    below `positive_threshold`.

    `negatives: none` has no groups: the loss of a row is (cosine - target)², with the target scaled
    from `range` to [0, 1] (Sentence-BERT, arXiv 1908.10084; SetFit, arXiv 2209.11055). Rows whose
    target is NaN are skipped.
    """

    target: ClassVar = "similarity"
    unit: ClassVar = "row"
    reads: ClassVar = (*SECOND_VIEW, LENGTHS)
    columns: ClassVar = ("input_ids_b", "crop_start", "crop_length")

    @config_class
    class Options(HeadOptions):
        """Keys of the similarity head."""

        range: tuple[float, float] = UNIT_RANGE
        """With `negatives: none`: the values of `target` that mean cosine 0 and cosine 1."""
        pool: Literal["cls", "mean", "max", "last"] | None = None
        """How a row becomes a vector: its first token, the mean or maximum of all, or its last;
        null = a linear map and tanh on the first token."""
        temperature: Annotated[float, Field(gt=0)] = 0.05
        """Divisor of the cosines; SimCSE 0.05 (arXiv 2104.08821), COCO-LM 1."""
        group_size: Annotated[int, Field(ge=2, le=2**20)] = 8
        """Number of consecutive rows of the global batch that are compared with each other, a
        divisor of data.micro_batch."""
        negatives: Literal["other", "bidirectional", "both", "none"] = "other"
        """other: first views against the second views of the group (SimCSE). bidirectional: also
        second views against first ones, and both losses are added (LaBSE). both: each view against
        all views of other rows (COCO-LM). none: no comparison between rows; the loss is the squared
        difference of the cosine and `target`."""
        margin: Annotated[float, Field(ge=0, lt=2)] = 0.0
        """Subtracted from the cosine of the two views of a row (additive margin softmax, arXiv
        1902.08564); LaBSE 0.3 (arXiv 2007.01852)."""
        positive_threshold: float | None = None
        """Lowest `target` of a positive pair, which the data set of a task declares; pairs below it
        have no loss. null = all pairs are positive."""

        def __post_init__(self) -> None:
            refuse_unread_keys(self, "negatives", _READS)
            refuse_empty_range(self.range)

        @property
        def compared_rows(self) -> int | None:
            return None if self.negatives == "none" else self.group_size

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.pooler = Pooler(config.dim) if self.options.pool is None else None

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return second views: stored ones, or crops of the original row with special tokens.

        The tensors are `input_ids_b`, `position_ids_b` [B, Tb] and `lengths_b` [B], 0 in rows
        without a second view.
        """
        views = [batch.padded("input_ids_b", batch.pad)] if batch.has("input_ids_b") else []

        if batch.has("crop_start"):
            # the row before masking
            original = batch.ids.astype(np.int64)
            positions, rows = batch.flat("label_positions")
            original[rows, positions] = batch.flat("label_ids")[0]
            start, length = map(batch.scalars, ("crop_start", "crop_length"))
            views.append(_crop(original, batch.lengths, start, length, batch.pad))

        # merge the views; each row has at most one
        sizes = np.sum([size for _, size in views], axis=0)
        second = np.full((len(sizes), max(view.shape[1] for view, _ in views)), batch.pad, np.int64)
        for view, size in views:
            second[size > 0, : view.shape[1]] = view[size > 0]
        return {
            "input_ids_b": torch.from_numpy(second),
            "lengths_b": torch.from_numpy(sizes),
            "position_ids_b": torch.arange(second.shape[1]).expand(*second.shape),
        }

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed loss of rows with two views; `hidden_b` [B, Tb, dim] is the second."""
        if self.options.negatives == "none":
            return self._squared_error(hidden, tensors)
        size = self.options.group_size
        if len(hidden) % size:
            raise BatchError(
                f"model.heads.similarity.group_size: expected a multiple of {size} rows, got "
                f"{len(hidden)}; set data.micro_batch to a multiple of group_size"
            )

        views = (
            self._vectors(hidden, tensors["lengths"]),
            self._vectors(tensors["hidden_b"], tensors["lengths_b"]),
        )
        first, second = (vectors.view(-1, size, vectors.shape[1]) for vectors in views)
        included = self._takes_part(tensors).view(-1, size)
        positions = torch.arange(size, device=hidden.device)

        # SimCSE, LaBSE: cosines [G, g, g] of first with second views; equal rows are not negatives
        if self.options.negatives != "both":
            equal = _equal_rows(tensors["input_ids"], size) | _equal_rows(
                tensors["input_ids_b"], size
            )
            same_row = torch.eye(size, dtype=torch.bool, device=hidden.device)
            scores = (first @ second.mT).masked_fill(equal & ~same_row, -torch.inf)
            loss = self._cross_entropy(scores, included, positions)
            if self.options.negatives == "bidirectional":
                loss = loss + self._cross_entropy(scores.mT, included, positions)
            return loss

        # COCO-LM: cosines [G, 2g, 2g] of all views, without that of a view with itself
        both = torch.cat((first, second), dim=1)
        same_view = torch.eye(2 * size, dtype=torch.bool, device=hidden.device)
        scores = (both @ both.mT).masked_fill(same_view, -torch.inf)
        return (
            self._cross_entropy(
                scores, included.repeat(1, 2), torch.cat((positions + size, positions))
            )
            / 2
        )

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self._takes_part(tensors).sum()

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the unit vectors that are compared, in fp32: [B, T, dim] to [B, dim]."""
        return self._vectors(hidden, tensors["lengths"])

    def logits(self, hidden: Tensor) -> Tensor:
        return F.normalize(hidden.float(), dim=-1)

    def _vectors(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        if self.pooler is not None:
            return self.logits(self.pooler(hidden))
        return self.logits(pool(str(self.options.pool), hidden, {"lengths": lengths}))

    def _takes_part(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return which rows [B] have a weight and a positive second view, or a target."""
        weight = tensors["row_weight"]
        included = (tensors["lengths_b"].to(weight.device) > 0) & (weight != 0)

        if self.options.negatives == "none":
            if "target" not in tensors:
                raise BatchError(
                    "model.heads.similarity.negatives: none needs pairs with a score, and these "
                    "rows have none: use other"
                )
            return included & ~tensors["target"].to(weight.device).isnan()

        if self.options.positive_threshold is None or "target" not in tensors:
            return included
        return included & ~(tensors["target"].to(weight.device) < self.options.positive_threshold)

    def _squared_error(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        first = self._vectors(hidden, tensors["lengths"])
        second = self._vectors(tensors["hidden_b"], tensors["lengths_b"])
        included = self._takes_part(tensors)
        low, high = self.options.range
        target = (tensors["target"].float() - low).masked_fill(~included, 0.0) / (high - low)
        return (((first * second).sum(-1) - target).square() * included).sum()

    def _cross_entropy(self, cosines: Tensor, included: Tensor, match: Tensor) -> Tensor:
        # Summed loss of queries Q against keys K. cosines: [G, Q, K], -inf where a query does not
        # see a key. included: [G, K], rows that take part. match: [Q], the key of each query.
        cosines = cosines - self.options.margin * F.one_hot(match, cosines.shape[-1])
        # not -inf, which would turn the gradient of a group of filler rows into NaN
        smallest = torch.finfo(cosines.dtype).min
        scores = (
            (cosines / self.options.temperature)
            .masked_fill(~included[:, None, :], -torch.inf)
            .clamp(min=smallest)
        )
        labels = match.expand(included.shape).masked_fill(~included, IGNORED)
        return cross_entropy_sum(scores.flatten(0, 1), labels.flatten())


def _crop(
    original: Int64, lengths: Int64, start: Int64, length: Int64, pad: int
) -> tuple[Int64, Int64]:
    """Return `[CLS] x[crop] [SEP]` of rows `[CLS] x [SEP]`, padded, and its lengths.

    The length is 0 where `length` is 0.
    """
    sizes = np.where(length > 0, length + 2, 0)
    # source [B, Tb]: the original column that each position of the crop reads
    columns = np.arange(max(1, int(sizes.max())))
    source = np.where(columns == 0, 0, columns + start[:, None])
    source = np.where(columns == sizes[:, None] - 1, lengths[:, None] - 1, source)
    inside = columns < sizes[:, None]
    crops = np.take_along_axis(original, np.where(inside, source, 0), axis=1)
    return np.where(inside, crops, pad), sizes


def _equal_rows(ids: Tensor, size: int) -> Tensor:
    """Return which rows of a group have the same tokens: [B, T] to [B / size, size, size]."""
    groups = ids.view(-1, size, ids.shape[1])
    return (groups[:, :, None] == groups[:, None]).all(-1)
