"""The span boundary objective against a loop over labels, written from §3.2 of the paper."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from clozeline.tools.start.contracts.heads import full_batch
from tests.model.small_models import VOCABULARY, built


def head_with_random_weights(**changes):
    network = built("encoder", heads={"span_boundary": {"max_span_tokens": 2}}, **changes)
    head = network.heads["span_boundary"]
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network, head


def by_hand(network, head, left, right, offset):
    """Scores [vocabulary] of a token from two states and its offset in the span."""

    def layer(x, linear, norm):
        x = linear.weight @ x + linear.bias
        x = x * 0.5 * (1 + torch.erf(x / 2**0.5))
        return (x - x.mean()) / (x.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias

    x = layer(
        torch.cat((left, right, head.offsets.weight[offset])),
        head.inner,
        head.inner_norm,
    )
    x = layer(x, head.outer, head.outer_norm)
    return network.family.tokens.weight @ x + head.projection.bias


@pytest.mark.parametrize("width", [24, 10])
@pytest.mark.parametrize("normalize", ["label", "row"])
def test_loss_by_hand(width, normalize):
    network, head = head_with_random_weights(emb_dim=width)
    head.options = replace(head.options, normalize=normalize)
    tensors = full_batch()
    hidden = torch.randn(6, 11, 24)
    losses = {}
    # labels are at 1, and in rows longer than 7 at 4 to 6: spans [1, 1] and [4, 6] in every row but
    # the third
    rows = tensors["label_index"] // 11
    places = tensors["label_index"] % 11
    tensors["span_left"] = rows * 11 + torch.where(places == 1, 0, 3)
    tensors["span_right"] = rows * 11 + torch.where(places == 1, 2, 7)
    tensors["span_offset"] = torch.where(places == 1, 0, places - 4).masked_fill(rows == 2, -1)

    for row, length in enumerate((11, 8, 11, 3, 9, 6)):
        spans = [] if row == 2 else [(1, 1), (4, 6)] if length > 7 else [(1, 1)]
        for first, last in spans:
            for place in range(first, min(last, first + 1) + 1):
                label = tensors["label_ids"][
                    (tensors["label_index"] == row * 11 + place).nonzero()[0, 0]
                ]
                scores = by_hand(
                    network, head, hidden[row, first - 1], hidden[row, last + 1], place - first
                )
                losses.setdefault(row, []).append(F.cross_entropy(scores[None], label[None]).item())

    del losses[5]
    found = head.loss(hidden, tensors)

    if normalize == "label":
        assert found.count == sum(map(len, losses.values())) == 3 + 3 + 1 + 3
        assert found.total.item() == pytest.approx(sum(map(sum, losses.values())), rel=1e-5)
    else:
        assert found.count == len(losses) == 4
        assert found.total.item() == pytest.approx(
            sum(sum(of) / len(of) for of in losses.values()), rel=1e-5
        )


def test_a_place_alone_is_scored_from_its_neighbors():
    network, head = head_with_random_weights()
    hidden = torch.randn(2, 4, 24)
    scores = head.logits(hidden)

    assert scores.shape == (2, 4, VOCABULARY)

    for place, (left, right) in enumerate([(0, 1), (0, 2), (1, 3), (2, 3)]):
        wanted = by_hand(network, head, hidden[1, left], hidden[1, right], 0)
        assert torch.allclose(scores[1, place], wanted, atol=1e-5)
