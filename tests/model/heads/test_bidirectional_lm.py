"""Both directions by hand."""

import pytest
import torch

from tests.model.small_models import batch_for, built


def next_tokens(tensors):
    """The labels of causal rows, as the stream makes them: every token but each row's first."""
    ids = tensors["input_ids"]
    lengths = tensors["lengths"].tolist()
    places = [(row, place) for row, length in enumerate(lengths) for place in range(length - 1)]
    index = torch.tensor([row * ids.shape[1] + place for row, place in places])
    labels = torch.tensor([ids[row, place + 1] for row, place in places])
    return tensors | {"label_index": index, "label_ids": labels}


def by_hand(network, hidden, tensors):
    """-log p of every token but the first from the left, and of every token but the last from the
    right."""
    projection = network.heads["bidirectional_lm"].projection
    left = hidden[..., :24]
    right = hidden[..., 24:]
    ids = tensors["input_ids"]
    total = 0.0

    for row, length in enumerate(tensors["lengths"].tolist()):
        if tensors["row_weight"][row] == 0:
            continue
        for place in range(1, length):
            total -= projection(left[row, place - 1]).log_softmax(-1)[ids[row, place]].item()
        for place in range(length - 1):
            total -= projection(right[row, place + 1]).log_softmax(-1)[ids[row, place]].item()

    return total


def test_loss_and_count_of_both_directions():
    network = built("elmo")
    tensors = next_tokens(batch_for("elmo", lengths=[11, 5, 2, 8]))
    tensors["row_weight"][1] = 0
    torch.nn.init.normal_(network.heads["bidirectional_lm"].projection.bias)
    hidden = torch.randn(4, 11, 48)
    loss = network.heads["bidirectional_lm"].loss(hidden, tensors)

    assert loss.total.item() == pytest.approx(by_hand(network, hidden, tensors), rel=1e-5)
    assert loss.count == 2 * (10 + 1 + 7)
