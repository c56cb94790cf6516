import pytest
import torch
from torch.nn import functional as F

from clozeline.model.configuration.head import HeadConfig
from clozeline.model.layers.classifier import Classifier
from tests.model.small_models import small_config


def built(seed=0, **options):
    torch.manual_seed(seed)
    module = Classifier(small_config("encoder"), HeadConfig(**options), 3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


def scores_by_hand(weights, states, activation, *, norm):
    x = states
    if activation is not None:
        x = activation(x @ weights["dense.weight"].T + weights["dense.bias"])
    if norm:
        spread = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        x = spread * weights["norm.weight"] + weights["norm.bias"]
    return x @ weights["out.weight"].T + weights.get("out.bias", 0.0)


@pytest.mark.parametrize(
    ("options", "activation"),
    [
        ({}, None),
        ({"bias": False}, None),
        ({"hidden": "tanh"}, lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())),
        ({"hidden": "gelu"}, lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
        ({"hidden": "relu", "hidden_norm": True}, lambda x: x.clamp(min=0)),
        ({"hidden": "relu", "hidden_norm": True, "hidden_dim": 7}, lambda x: x.clamp(min=0)),
        ({"hidden": "identity", "hidden_dim": 2}, lambda x: x),
    ],
    ids=["plain", "without bias", "tanh", "gelu", "norm", "narrow norm", "two maps"],
)
def test_scores_are_those_of_the_formula(options, activation):
    module, states = built(**options), torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    weights = dict(module.named_parameters())
    expected = scores_by_hand(weights, states, activation, norm=options.get("hidden_norm", False))
    assert torch.allclose(module(states), expected, atol=1e-5)


def test_a_plain_one_has_only_the_parameters_of_the_classes():
    count = sum(parameter.numel() for parameter in built().parameters())
    assert count == 24 * 3 + 3


def test_both_dropouts_are_where_the_formula_has_them():
    """One mask on the vector, one on the hidden states, in this order."""
    module, states = built(hidden="tanh", input_dropout=0.5, dropout=0.25).train(), torch.randn(4, 24)
    weights = dict(module.named_parameters())
    torch.manual_seed(7)
    found = module(states)
    torch.manual_seed(7)
    x = torch.tanh(F.dropout(states, 0.5) @ weights["dense.weight"].T + weights["dense.bias"])
    expected = F.dropout(x, 0.25) @ weights["out.weight"].T + weights["out.bias"]
    assert torch.allclose(found, expected, atol=1e-6)


def test_dropout_is_that_of_the_model_unless_given():
    config = small_config("encoder", dropout={"hidden": 0.3})
    assert Classifier(config, HeadConfig(), 3).dropout.p == 0.3
    assert Classifier(config, HeadConfig(dropout=0.0), 3).dropout.p == 0.0
