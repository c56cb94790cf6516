"""A repeated layer against the formulas of arXiv 1807.03819, and what it refuses."""

import math

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.layers.masks import plan_attention
from tests.model.small_models import batch_for, built

STEPS = 5
POSITIONS = {
    "learned": PositionConfig(kind="learned", maximum=16),
    "none": PositionConfig(kind="none"),
    "sinusoidal": PositionConfig(kind="sinusoidal"),
}


def model_of(family, position, dim=15):
    """A model in fp64."""
    model = built(
        family,
        dim=dim,
        layers=STEPS,
        attention_heads=3,
        kv_heads=3,
        position=POSITIONS[position],
        share=ShareConfig(groups=1, universal=True),
    )
    draw = torch.Generator().manual_seed(4)

    for parameter in model.requires_grad_(False).parameters():
        parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.2)

    return model.double().eval()


def wave(number, dim):
    angles = [number / 10000 ** (2 * (column // 2) / dim) for column in range(dim)]
    return torch.tensor(
        [math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)]
    )


@pytest.mark.parametrize(
    ("family", "position", "dim"),
    [("encoder", "learned", 15), ("encoder", "sinusoidal", 18), ("decoder", "none", 15)],
)
def test_each_step_adds_its_signal(family, position, dim):
    model = model_of(family, position, dim)
    tensors = batch_for(family, lengths=[11])
    stack = model.family.stack
    x = stack.embeddings(
        model.family.tokens(tensors["input_ids"]), stack.position, tensors["position_ids"], None
    )
    plan = plan_attention(None, None, causal=family == "decoder")

    for step in range(1, STEPS + 1):
        x = x + wave(step, dim + dim % 2)[:dim]
        if position == "sinusoidal" and step > 1:
            x = x + torch.stack([wave(at, dim) for at in range(11)])
        x = stack.layers[0](x, plan, None, None)

    assert torch.allclose(model.family(tensors), stack.norm(x), atol=1e-5)  # waves are fp32
    assert len(model.family.layer_states(tensors)) == STEPS + 1


def test_generation_with_a_cache_computes_the_same():
    model = model_of("decoder", "none")
    ids = torch.tensor([[1, 1, 1, 1, 2, 7, 2, 1, 2], [1, 1, 1, 1, 2, 2, 9, 30, 4]])
    lengths = torch.full((2,), 9)
    positions = torch.arange(9).expand(2, 9)
    whole = model.logits({"input_ids": ids, "position_ids": positions, "lengths": lengths})["lm"]
    decoder = IncrementalDecoder(model, ids[:, :4].tolist(), None, prefix=False, tokens=5)
    for column in range(4, 9):
        assert torch.allclose(decoder.scores, whole[:, column - 1].float(), atol=1e-5)
        decoder.add(ids[:, column].tolist())


def test_layers_are_not_read_without_their_signal():
    with pytest.raises(ConfigurationError, match=r"share\.universal"):
        model_of("encoder", "learned").family.find_body("early exit")
