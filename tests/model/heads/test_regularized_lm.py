"""Cross entropy and penalties, by hand."""

import pytest
import torch
from torch.nn import functional as F

from tests.model.small_models import VOCABULARY, batch_for, built

SMALL = {"activation_penalty": 0.5}

HEADS = {"regularized_lm": {"activation_penalty": 2.0, "change_penalty": 3.0}}


def by_hand(network, hidden, dropped, tensors, alpha, beta):
    """Sum over labels; a label at place i has token i + 1 in its row."""
    head = network.heads["regularized_lm"]
    total = 0.0

    for index, label in zip(
        tensors["label_index"].tolist(), tensors["label_ids"].tolist(), strict=True
    ):
        row, place = divmod(index, 11)
        weight = tensors["row_weight"][row].item()
        scores = (
            dropped[row, place] @ network.family.tokens.weight[:VOCABULARY].T
            + head.projection.bias[:VOCABULARY]
        )
        change = hidden[row, place + 1] - hidden[row, place]
        penalty = alpha * dropped[row, place].square().mean() + beta * change.square().mean()
        total += weight * (-scores.log_softmax(-1)[label] + penalty).item()

    return total


def test_training_adds_both_penalties_and_evaluation_none():
    network = built("awd_lstm", heads=HEADS)
    tensors = batch_for("awd_lstm", lengths=[11, 5, 9, 8])
    tensors["row_weight"][2] = 0
    torch.nn.init.normal_(network.heads["regularized_lm"].projection.bias)
    head = network.heads["regularized_lm"]
    hidden = torch.randn(4, 11, 24)

    assert head(hidden, tensors).item() == pytest.approx(
        by_hand(network, hidden, hidden, tensors, 2, 3), rel=1e-5
    )
    assert head.divisor(tensors) == 6

    head.eval()

    assert head(hidden, tensors).item() == pytest.approx(
        by_hand(network, hidden, hidden, tensors, 0, 0), rel=1e-5
    )
    assert torch.allclose(
        head.logits(hidden)[0, 0],
        head.projection(hidden[0, 0]),
        atol=1e-5,
    )


def test_the_state_is_dropped_before_the_scores_and_not_before_its_change():
    network = built("awd_lstm", heads=HEADS, dropout={"output": 0.5})
    tensors = batch_for("awd_lstm", lengths=[11, 5, 9, 8])
    hidden = torch.randn(4, 11, 24)
    torch.manual_seed(7)
    dropped = hidden * F.dropout(torch.ones(4, 1, 24), 0.5)
    torch.manual_seed(7)
    found = network.heads["regularized_lm"](hidden, tensors).item()

    assert found == pytest.approx(by_hand(network, hidden, dropped, tensors, 2, 3), rel=1e-5)


def test_weights_of_labels_weigh_the_penalties():
    network = built(
        "awd_lstm", heads={"regularized_lm": {**HEADS["regularized_lm"], "normalize": "row"}}
    )
    tensors = batch_for("awd_lstm", lengths=[11, 5, 9, 8])
    hidden = torch.randn(4, 11, 24)
    loss = network.heads["regularized_lm"].loss(hidden, tensors)

    assert loss.count == 4
    assert loss.total.item() == pytest.approx(
        by_hand(network, hidden, hidden, tensors, 2, 3) / 2, rel=1e-5
    )
