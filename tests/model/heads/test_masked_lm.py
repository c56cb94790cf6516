"""Prediction of masked tokens by hand."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from tests.model.small_models import VOCABULARY, batch_for, built


@pytest.mark.parametrize(
    "changes",
    [{}, {"emb_dim": 10}, {"emb_dim": 10, "out_dim": 7, "tied": False}, {"emb_dim": 10, "out_dim": 17}],
    ids=str,
)
def test_scores_by_hand(changes):
    network = built("encoder", **changes)
    head = network.heads["masked_lm"]
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    hidden = torch.randn(2, 3, 24)
    table = network.family.tokens.weight if network.config.tied else head.projection.weight
    assert table.shape[1] == (network.config.embedding_width if network.config.tied else network.config.output_width)
    if table.shape[1] < network.config.output_width:  # the rest of a tied projection is its own
        table = torch.cat((table, head.projection.extra.weight), dim=1)
    assert table.shape == (VOCABULARY, changes.get("out_dim") or changes.get("emb_dim", 24))
    inner = F.gelu(hidden @ head.transform.weight.T + head.transform.bias)
    centred = inner - inner.mean(-1, keepdim=True)
    normed = centred / (inner.var(-1, unbiased=False, keepdim=True) + head.norm.eps).sqrt()
    normed = normed * head.norm.weight + head.norm.bias
    wanted = normed @ table.T + head.projection.bias
    assert torch.allclose(head.logits(hidden), wanted, atol=1e-5)
    assert head.logits(hidden).shape == (2, 3, VOCABULARY)


def test_scores_without_a_transform():
    network = built("encoder", heads={"masked_lm": {"transform": False}})
    head, hidden = network.heads["masked_lm"], torch.randn(2, 3, 24)
    torch.nn.init.normal_(head.projection.bias)
    assert [name for name, _ in head.named_parameters()] == ["projection.weight", "projection.bias"]
    assert torch.allclose(head.logits(hidden), hidden @ network.family.tokens.weight.T + head.projection.bias)


def test_scores_without_a_bias():
    network = built("encoder", heads={"masked_lm": {"transform": False, "bias": False}})
    head, hidden = network.heads["masked_lm"], torch.randn(2, 3, 24)
    assert [name for name, _ in head.named_parameters()] == ["projection.weight"]
    assert torch.equal(head.logits(hidden), hidden @ network.family.tokens.weight.T)
    biased = built("encoder", heads={"masked_lm": {"transform": False}})
    assert biased.num_parameters() - network.num_parameters() == VOCABULARY


def test_without_a_transform_states_are_as_wide_as_the_table():
    with pytest.raises(ConfigurationError, match="reads states of width 24"):
        built("encoder", emb_dim=10, heads={"masked_lm": {"transform": False}})


def test_only_labeled_places_reach_the_projection():
    network = built("encoder")
    head, seen = network.heads["masked_lm"], []
    head.projection.register_forward_hook(lambda _module, inputs, _out: seen.append(inputs[0].shape))
    tensors = batch_for("encoder")
    head(torch.randn(4, 11, 24), tensors)
    assert seen == [(len(tensors["label_index"]), 24)]
