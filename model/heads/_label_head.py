"""The base of heads that predict a token or class at each labeled position."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from clozeline.model.heads._head import Head
from clozeline.model.loss import count_labels, cross_entropy_sum_in_chunks, gather_labels, label_ids_with_loss


class LabelHead(Head):
    """A head with the cross entropy of its scores at the labeled positions; no other position is projected."""

    left_padding: ClassVar = True
    needs: ClassVar[frozenset[str]] = frozenset({"label_index", "label_ids"})
    settings: ClassVar[frozenset[str]] = frozenset({"normalise"})

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy_sum_in_chunks(self.logits, gather_labels(hidden, tensors), self.label_chunk)

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return count_labels(tensors)

    def classes(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the tokens or classes at the labeled positions; empty where a head also predicts other positions."""
        return label_ids_with_loss(self._weigh(tensors)) if self.unit == "label" else super().classes(tensors)
