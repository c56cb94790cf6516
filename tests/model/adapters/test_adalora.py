"""AdaLoRA's updates against peft: scores, gradients and the penalty; and the formula of the paper."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from clozeline.model.adaptation import merge_adapter
from tests.model.adapters.adapted_models import adapted, inside_peft, peft, scores
from tests.model.small_models import batch_for

CASE = ("decoder", {"rank": 3, "alpha": 6.0, "targets": ["query", "value", "up"]})
TARGETS = ["query", "value", "down"]


class WithLoss(nn.Module):
    """A model whose output has a `loss`, to which peft adds its penalty."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tensors):
        (loss,) = self.model(tensors).values()
        return SimpleNamespace(loss=loss.total / loss.count)


def copied(wrapped, adapter):
    """Give peft our weights; return pairs of our parameter and theirs, by our name.

    Its scale is alpha / (rank + 1e-5), against ranks of 0; ours has no such term.
    """
    ours, pairs = dict(adapter.named_parameters()), {}
    for name, parameter in wrapped.named_parameters():
        if "ranknum" in name:
            parameter.data -= 1e-5
        path, found, kind = name.partition(".lora_")
        if found:
            own = f"{path.partition('.family.')[2]}.{ {'A': 'a', 'B': 'b', 'E': 'values'}[kind[0]] }"
            parameter.data = ours[own].data.clone()
            pairs[own] = (ours[own], parameter)
    assert pairs.keys() == ours.keys()
    return pairs


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
def test_peft_computes_the_same_scores_penalty_and_gradients(family):
    model = adapted(family, "adalora", rank=3, alpha=5.0, targets=TARGETS)
    keys = {"init_r": 3, "target_r": 1, "lora_alpha": 5, "orth_reg_weight": 0.3, "total_step": 9}
    config = peft().AdaLoraConfig(**keys, target_modules=TARGETS)
    wrapped, theirs = inside_peft(model, config)
    pairs = copied(wrapped, model.adapters["own"])
    tensors = batch_for(family)
    assert (scores(model, tensors) - scores(theirs.eval(), tensors)).abs().max() <= 1e-5
    (loss,) = model(tensors).values()
    parts = model.adapters["own"].parts.values()
    total = loss.total / loss.count + 0.3 * sum(part() for part in parts) / (2 * len(parts))
    total.backward()
    wrapped.base_model.model = WithLoss(theirs)
    expected = wrapped.base_model(tensors).loss
    expected.backward()
    torch.testing.assert_close(total, expected, rtol=1e-6, atol=0)
    for own, other in pairs.values():
        assert (own.grad - other.grad).abs().max() <= 1e-4 * max(1.0, other.grad.abs().max())
        assert other.grad.any()


def test_a_map_computes_the_formula_and_drops_values_of_zero():
    model = adapted("encoder", "adalora", rank=4, alpha=6.0, targets=["layers.1.attention.body.out"])
    (part,) = model.adapters["own"].parts.values()
    linear = model.family.stack.layers[1].attention.body.out
    with torch.no_grad():
        part.values[1] = 0.0
    update = sum(1.5 * part.values[i] * torch.outer(part.b[:, i], part.a[i]) for i in (0, 2, 3))
    x = torch.randn(3, 24)
    assert torch.allclose(linear(x), x @ (linear.weight + update).T + linear.bias, atol=1e-5)
    a, b = part.factors()
    assert (a.shape, b.shape) == ((3, 24), (24, 3))
    before = linear.weight.detach().clone()
    merge_adapter(model, "own")
    assert torch.allclose(linear.weight - before, update, atol=1e-5)


def test_orthogonal_factors_have_no_penalty():
    model = adapted("encoder", "adalora", rank=4, noise=False)
    for part in model.adapters["own"].parts.values():
        with torch.no_grad():
            part.a.copy_(torch.linalg.qr(torch.randn(24, 4)).Q.T)
            part.b.copy_(torch.linalg.qr(torch.randn(len(part.b), 4)).Q)
        assert part() < 1e-4
