"""Span boundary objective: predict a span's tokens from the states around it (arXiv 1907.10529)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from clozeline.columns import IGNORED, BatchField
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import LabelOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import LabelHead, StoredColumns
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.loss import cross_entropy_sum, gather_labels


class SpanBoundaryHead(LabelHead):
    """Two linear maps with activation and norm over [left state; right state; offset].

    Then the projection onto the vocabulary.

    The offset of a token in its span, from 0, has a learned vector. Labels outside spans, and
    labels from `max_span_tokens` on, have no loss and do not count.
    """

    target: ClassVar = "span_boundary"
    reads: ClassVar = (
        *LabelHead.reads,
        BatchField("span_left", "label", below="tokens"),
        BatchField("span_right", "label", below="tokens"),
        BatchField("span_offset", "label", filler=-1, below="length"),
    )
    columns: ClassVar = ("span_starts", "span_lengths")

    @config_class
    class Options(LabelOptions):
        """Keys of the span-boundary head."""

        max_span_tokens: Annotated[int, Field(ge=1, le=2**16)] = 30
        """Number of tokens of a span with a loss; later ones are not predicted (arXiv
        1907.10529)."""

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        width = config.output_width
        self.offsets = nn.Embedding(self.options.max_span_tokens, config.dim)
        self.inner = nn.Linear(3 * config.dim, config.dim)
        self.inner_norm = build_norm(config, config.dim)
        self.outer = nn.Linear(config.dim, width)
        self.outer_norm = build_norm(config, width)
        self.projection = VocabularyProjection.of_states(
            config, width, tokens, vocab_size, bias=True
        )
        self.act = ACTIVATIONS[config.activation]

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return `span_left` and `span_right` [N]: flat indices of the neighbors of a label's span.

        `span_offset` [N] is the label's position in the span, -1 for a label outside of spans.
        """
        first, rows = batch.flat("span_starts")
        sizes, _ = batch.flat("span_lengths")
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

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        labels = gather_labels(hidden, tensors)
        flat = hidden.flatten(0, 1)
        left, right, offset = (tensors[name] for name in ("span_left", "span_right", "span_offset"))
        if not offset.numel():
            left = right = offset = torch.zeros_like(labels.ids)
        scores = self._scores(flat.index_select(0, left), flat.index_select(0, right), offset)
        return cross_entropy_sum(scores, labels.ids, labels.weights)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of each position as a span of one token, [B, T, vocab_size]."""
        last = hidden.shape[1] - 1  # the first and the last position are their own neighbors
        positions = torch.arange(last + 1, device=hidden.device)
        left = hidden[:, (positions - 1).clamp(min=0)]
        right = hidden[:, (positions + 1).clamp(max=last)]
        return self._scores(left, right, positions.new_zeros(hidden.shape[:2]))

    def _scores(self, left: Tensor, right: Tensor, offset: Tensor) -> Tensor:
        # [N, 3 dim]: both neighbors of the span, and the token's offset in it
        x = torch.cat((left, right, self.offsets(offset).to(left.dtype)), dim=-1)
        x = self.inner_norm(self.act(self.inner(x)))
        return self.projection(self.outer_norm(self.act(self.outer(x))))

    def _weigh(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Ignore labels that are not predicted, so that shapes do not depend on them."""
        offset = tensors["span_offset"]
        predicted = (offset >= 0) & (offset < self.offsets.num_embeddings)
        known = {
            "label_ids": tensors["label_ids"].where(predicted, IGNORED),
            "span_offset": offset.where(predicted, 0),
        }
        return super()._weigh({**tensors, **known})
