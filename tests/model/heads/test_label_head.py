"""A head whose scores are the hidden states themselves."""

import torch
from torch.nn import functional as F

from clozeline.model.heads._head import LabelHead


class Scores(LabelHead):
    def logits(self, hidden):
        return hidden


def test_the_loss_is_the_cross_entropy_of_labels_in_rows_with_weight():
    hidden = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": torch.zeros(2, 3), "row_weight": torch.tensor([1.0, 0.0])}
    batch |= {"label_index": torch.tensor([0, 2, 4]), "label_ids": torch.tensor([3, 1, 2])}
    loss = Scores().loss(hidden, batch)
    expected = F.cross_entropy(hidden[0, [0, 2]], torch.tensor([3, 1]), reduction="sum")
    assert torch.allclose(loss.total, expected)
    assert loss.count == 2
