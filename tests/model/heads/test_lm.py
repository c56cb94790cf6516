"""Next-token prediction by hand."""

import math

import pytest
import torch

from tests.model.small_models import VOCABULARY, batch_for, built


@pytest.mark.parametrize(("family", "factor"), [("decoder", 1.0), ("encoder_decoder", 24**-0.5)])
@pytest.mark.parametrize("tied", [True, False])
def test_scores_and_loss_by_hand(family, factor, tied):
    network = built(family, tied=tied)
    head, tensors = network.heads["lm"], batch_for(family)
    columns = 9 if family == "encoder_decoder" else 11
    hidden = torch.randn(4, columns, 24)
    table = network.family.tokens.weight if tied else head.projection.weight
    scores = (hidden * factor) @ table[:VOCABULARY].T
    assert torch.allclose(head.logits(hidden), scores, atol=1e-5)
    loss = 0.0
    for index, label in zip(tensors["label_index"].tolist(), tensors["label_ids"].tolist(), strict=True):
        row = scores[index // columns, index % columns].tolist()
        loss += math.log(sum(map(math.exp, row))) - row[label]
    assert head(hidden, tensors).item() == pytest.approx(loss, rel=1e-5)
    assert head.divisor(tensors) == 8
    assert head.projection.bias is None
