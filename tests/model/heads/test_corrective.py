"""Corrective LM against a loop over places, written from equations 2 and 3 of the paper."""

import math

import pytest
import torch

from tests.model.small_models import built, full_batch

SMALL = {"copy_weight": 3.0}
PREDICTS_CLASSES = False


def drawn():
    network = built("encoder", heads={"corrective": {"copy_weight": 3.0}}).eval()
    for parameter in network.heads["corrective"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network, full_batch()


def test_loss_by_hand():
    network, tensors = drawn()
    head, hidden = network.heads["corrective"], torch.randn(6, 11, 24)
    scores = head.logits(hidden).double()
    originals = tensors["input_ids"].clone()
    originals.view(-1)[tensors["label_index"]] = tensors["label_ids"]
    total, count = 0.0, 0
    for row, length in enumerate((11, 8, 11, 3, 9)):
        for place in range(length):
            copied = torch.sigmoid(hidden[row, place] @ head.copy.weight[0] + head.copy.bias[0]).item()
            likely = scores[row, place].softmax(0)[originals[row, place]].item()
            same = originals[row, place] == tensors["input_ids"][row, place]
            total -= math.log((copied if same else 0.0) + (1 - copied) * likely)
            total -= 3.0 * math.log(copied if same else 1 - copied)
            count += 1
    found = head.loss(hidden, tensors)
    assert found.count == count
    assert found.total.item() == pytest.approx(total, rel=1e-5)


def test_the_loss_of_tokens_does_not_train_the_decision_to_copy():
    network, tensors = drawn()
    head, hidden = network.heads["corrective"], torch.randn(6, 11, 24)
    head.copy_weight = 0.0
    head.loss(hidden, tensors).total.backward()
    assert not head.copy.weight.grad.any()
    assert head.transform.weight.grad.any()


def test_a_sure_copy_of_an_unlikely_token_is_finite():
    network, tensors = drawn()
    head = network.heads["corrective"]
    with torch.no_grad():
        head.copy.bias.fill_(200.0)
    total = head.loss(torch.randn(6, 11, 24), tensors).total
    total.backward()
    assert total.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_only_tokens_reach_the_projection():
    network, tensors = drawn()
    seen = []
    network.heads["corrective"].projection.register_forward_hook(lambda _m, inputs, _o: seen.append(len(inputs[0])))
    network(tensors)
    assert seen == [11 + 8 + 11 + 3 + 9]
