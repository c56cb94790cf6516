"""One product for several maps: the same values and gradients, and each map by itself where something listens to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from clozeline.model.layers.joint_products import apply_jointly
from clozeline.registry import choose
from tests.model.small_models import batch_for, built


@pytest.fixture(autouse=True)
def accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a processor multiplies as an accelerator would."""
    monkeypatch.setattr("clozeline.model.layers.joint_products._is_accelerated", lambda _: True)


class Products(TorchDispatchMode):
    """The shapes of the weights that are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.widths: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            self.widths.append(args[-1].shape[1])
        return func(*args, **(kwargs or {}))


def widths(maps: tuple[nn.Linear, ...], x: Tensor) -> list[int]:
    with Products() as products:
        apply_jointly(maps, x)
    return products.widths


@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_each_map(bias: bool) -> None:
    torch.manual_seed(0)
    maps = tuple(nn.Linear(48, width, bias=bias) for width in (48, 24, 24))
    x = torch.randn(5, 7, 48, requires_grad=True)
    found: list[list[Tensor]] = []
    for results in (apply_jointly(maps, x), [linear(x) for linear in maps]):
        total = sum((result * torch.arange(result.shape[-1])).sum() for result in results)
        inputs = [x, *(parameter for linear in maps for parameter in linear.parameters())]
        found.append([*results, *torch.autograd.grad(total, inputs)])  # type: ignore[arg-type]
    for ours, wanted in zip(*found, strict=True):
        scale = float(wanted.detach().abs().max())
        torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-6 * scale)
    assert widths(maps, x) == [96]


def test_maps_that_something_listens_to_are_called() -> None:
    x = torch.randn(3, 6)

    def fresh() -> tuple[nn.Linear, ...]:
        return tuple(nn.Linear(6, 6) for _ in range(3))

    for change in (
        lambda maps: maps[1].register_forward_hook(lambda *_: None),
        lambda maps: maps[1].register_forward_pre_hook(lambda *_: None),
        lambda maps: maps[1].eval(),
        lambda maps: vars(maps[1]).update(forward=maps[1].forward),
        lambda maps: maps[1].register_parameter("bias", None),
    ):
        maps = fresh()
        change(maps)
        assert widths(maps, x) == [6, 6, 6]


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_a_training_step_of_a_model_has_one_product_for_queries_keys_and_values(family: str) -> None:
    network, batch = built(family), batch_for(family)
    with Products() as products:
        joint = network(batch)
    layers, config = len(network.family.stack.layers), network.config
    width = (config.attention_heads + 2 * config.key_value_heads) * config.head_width
    assert products.widths.count(width) == layers
    for linear in (module for module in network.modules() if isinstance(module, nn.Linear)):
        linear.register_forward_hook(lambda *_: None)
    for name, loss in network(batch).items():
        torch.testing.assert_close(joint[name].total, loss.total, rtol=1e-6, atol=0)


def test_an_update_of_one_projection_is_seen() -> None:
    adapter = choose("clozeline.model.adapters", {"name": "lora", "rank": 2, "targets": ["query"]})
    network = built("encoder", adapter=adapter)
    before = {name: loss.total.detach() for name, loss in network(batch_for("encoder")).items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(".b"):
                parameter.fill_(0.5)
    losses = network(batch_for("encoder"))
    assert all(loss.total != before[name] for name, loss in losses.items())
    sum(loss.total for loss in losses.values()).backward()  # type: ignore[union-attr, no-untyped-call]
    assert all(p.grad is not None for name, p in network.named_parameters() if name.endswith((".a", ".b")))


def test_a_processor_calls_each_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert widths(tuple(nn.Linear(6, 6) for _ in range(3)), torch.randn(3, 6)) == [6, 6, 6]
