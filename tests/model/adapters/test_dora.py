"""DoRA against peft: scores and gradients, and the formula of the paper."""

import pytest
import torch

from clozeline.model.adaptation import merge_adapter
from clozeline.model.adapters.lora import Lora
from tests.model.adapters.adapted_models import adapted, inside_peft, peft, scores
from tests.model.small_models import batch_for

CASE = ("decoder", {"rank": 3, "alpha": 6.0, "targets": ["query", "value", "up"]})

TARGETS = ["query", "value", "down"]


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
def test_peft_computes_the_same_scores_and_gradients(family):
    model = adapted(family, "dora", rank=3, alpha=5.0, targets=TARGETS)
    config = peft().LoraConfig(r=3, lora_alpha=5.0, use_dora=True, target_modules=TARGETS)
    wrapped, theirs = inside_peft(model, config)
    ours = dict(model.adapters["own"].named_parameters())
    pairs = {}
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            path, _, kind = name.removeprefix("base_model.model.family.").rpartition(".lora_")
            own = {"A": "a", "B": "b", "m": "magnitude"}[kind[0]]
            parameter.data = ours[f"{path}.{own}"].data.clone()
            pairs[f"{path}.{own}"] = parameter
    assert pairs.keys() == ours.keys()
    tensors = batch_for(family)
    assert (scores(model, tensors) - scores(theirs.eval(), tensors)).abs().max() <= 1e-5
    for side in (model, theirs):
        (loss,) = side(tensors).values()
        loss.total.backward()
    for name, parameter in pairs.items():
        assert (ours[name].grad - parameter.grad).abs().max() <= 1e-4 * max(1.0, parameter.grad.abs().max())
        assert parameter.grad.any()


def test_a_map_computes_the_formula():
    model = adapted("encoder", "dora", rank=2, alpha=6.0, targets=["layers.1.attention.body.out"])
    (part,) = model.adapters["own"].parts.values()
    linear = model.family.stack.layers[1].attention.body.out
    direction = linear.weight + 3.0 * part.b @ part.a
    rows = [part.magnitude[row] * direction[row] / direction[row].square().sum().sqrt() for row in range(24)]
    x = torch.randn(3, 24)
    assert torch.allclose(linear(x), x @ torch.stack(rows).T + linear.bias, atol=1e-5)
    merged = merge_adapter(model, "own")
    assert torch.allclose(linear.weight, torch.stack(rows), atol=1e-6)
    assert merged.keys() == {"stack.layers.1.attention.body.out.weight"}


def test_magnitudes_start_from_the_weights():
    model = adapted("decoder", "dora", noise=False)
    for path, part in model.adapters["own"].parts.items():
        weight = model.family.get_parameter(f"{path}.weight")
        assert torch.allclose(part.magnitude, weight.square().sum(1).sqrt())
    assert isinstance(model.adapters["own"], Lora)
