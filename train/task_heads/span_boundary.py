"""Spans of a head that predicts masked tokens from the neighbors of their span (SpanBERT)."""

import numpy as np
import torch
from torch import Tensor

from clozeline.pipeline.corrupt.objectives.span_boundary import SPAN_LENGTHS, SPAN_STARTS
from clozeline.train.data.stream.head_features import HeadBatch
from clozeline.train.data.stream.padding import flatten
from clozeline.train.task_heads._task_head import HeadTensors


class SpanBoundaryTaskHead(HeadTensors):
    """The neighbors of each label's span."""

    columns = (SPAN_STARTS, SPAN_LENGTHS)

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return `span_left` and `span_right` [N]: flat indices of the neighbors of a label's span.

        `span_offset` [N] is the label's position in the span, -1 for a label outside of spans.
        """
        first, rows = flatten(batch.columns["span_starts"])
        sizes, _ = flatten(batch.columns["span_lengths"])
        first = first + rows * batch.ids.shape[1]
        # flatten the spans to tokens: offset in the span, and index in B * T
        offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        index = np.repeat(first, sizes) + offset
        # left neighbor, right neighbor and offset of every token
        table = np.zeros((3, batch.ids.size), np.int64)
        table[2] = -1
        table[:, index] = np.repeat(first - 1, sizes), np.repeat(first + sizes, sizes), offset
        of_labels = torch.from_numpy(table[:, batch.tensors["label_index"].numpy()])
        return dict(zip(("span_left", "span_right", "span_offset"), of_labels, strict=True))
