"""A repeated layer against the formulas of 1807.03819 and 1603.08983, token by token.

And what it refuses.
"""

import math

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.layer import ShareConfig, UniversalConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.layers.masks import plan_attention
from tests.model.small_models import batch_for, built

DIM = 15
STEPS = 5
EPSILON = 0.05
POSITIONS = {
    "learned": PositionConfig(kind="learned", maximum=16),
    "none": PositionConfig(kind="none"),
    "sinusoidal": PositionConfig(kind="sinusoidal"),
}


def universal(epsilon=EPSILON, ponder=0.01):
    return ShareConfig(groups=1, universal=UniversalConfig(epsilon=epsilon, ponder=ponder))


def model_of(family="encoder", epsilon=EPSILON, spread=0.5, **changes):
    """A model in fp64 whose tokens stop at steps 1 to 5."""
    sizes = {
        "dim": DIM,
        "layers": STEPS,
        "attention_heads": 3,
        "kv_heads": 3,
        "position": POSITIONS["learned"],
    }

    model = built(family, **sizes | {"share": universal(epsilon)} | changes)
    draw = torch.Generator().manual_seed(4)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.2)
        model.family.tokens.weight.mul_(8)

        if epsilon is not None:
            unit = model.family.stack.universal.halting
            unit.weight.copy_(torch.randn(unit.weight.shape, generator=draw) * spread)
            unit.bias.fill_(-0.5)

    return model.double().eval()


def wave(number, dim):
    angles = [number / 10000 ** (2 * (column // 2) / dim) for column in range(dim)]
    return torch.tensor(
        [math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)]
    )


@torch.no_grad()
def slow(model, ids, causal=False):
    """The states [T, dim] of one row without padding, and of each token N and R, by a loop over
    steps and tokens."""
    stack = model.family.stack
    length = len(ids)
    vectors = model.family.tokens(ids)
    unit = stack.universal.halting
    place = None
    if type(stack.position).__name__ == "Sinusoidal":
        place = [wave(at, vectors.shape[1]) for at in range(length)]
    states = stack.embeddings(
        vectors[None],
        stack.position,
        torch.arange(length)[None],
        None,
    )[0]
    states = list(states)
    sums = [0.0] * length
    halted = [False] * length
    mean = [torch.zeros(model.config.dim, dtype=torch.float64) for _ in ids]
    count = [0] * length
    remainder = [None] * length

    for step in range(1, STEPS + 1):
        for at in range(length):
            states[at] = (
                states[at] + wave(step, model.config.dim + model.config.dim % 2)[: model.config.dim]
            )
            if place is not None and step > 1:
                states[at] = states[at] + place[at]

        new = stack.layers[0](
            torch.stack(states)[None], plan_attention(None, None, causal=causal), None, None
        )[0]

        for at in range(length):
            if halted[at]:
                continue
            chance = torch.sigmoid(unit.weight[0] @ states[at] + unit.bias[0])
            count[at] += 1

            if float(sums[at] + chance) >= 1 - EPSILON or step == STEPS:
                halted[at] = True
                remainder[at] = 1 - sums[at]
                chance = remainder[at]

            mean[at] = mean[at] + chance * new[at]
            sums[at] = sums[at] + chance
            states[at] = new[at]

    assert all(abs(float(total) - 1) < 1e-12 for total in sums)

    return stack.norm(torch.stack(mean)), count, [float(part) for part in remainder]


@pytest.mark.parametrize(
    ("family", "position", "changes"),
    [
        ("encoder", "learned", {}),
        ("encoder", "sinusoidal", {"dim": 18}),
        ("decoder", "none", {}),
    ],
)
def test_states_steps_and_cost_are_those_of_the_formulas(family, position, changes):
    model = model_of(family, position=POSITIONS[position], **changes)
    model.requires_grad_(False)
    tensors = batch_for(family, lengths=[7, 11, 1, 6, 9])
    tensors["row_weight"][3] = 0
    hidden = model.family(tensors)
    losses = model(tensors)
    steps = []
    cost = 0.0

    for row, length in enumerate(tensors["lengths"].tolist()):
        expected, count, remainder = slow(
            model, tensors["input_ids"][row, :length], causal=family == "decoder"
        )

        assert torch.allclose(hidden[row, :length], expected, atol=1e-5)  # waves are fp32

        if row != 3:
            steps += count
            cost += sum(count) + sum(remainder)

    assert len(set(steps)) >= 3, "the tokens of this test stop at different steps"

    ponder = losses["ponder"]

    assert (float(ponder.total), ponder.count) == (pytest.approx(cost, rel=1e-6), 28)
    assert float(ponder.metrics["steps"]) == sum(steps)
    assert model.divisors["ponder"].count(tensors) == 28
    assert model.loss_weights["ponder"] == 0.01


def test_gradients_of_the_cost_are_those_of_the_remainders():
    """N is a constant: the gradient is that of R = 1 - the sum of the probabilities before step
    N."""
    model = model_of("decoder", position=POSITIONS["none"])
    tensors = batch_for("decoder", lengths=[7])
    unit = model.family.stack.universal.halting
    (gradient,) = torch.autograd.grad(model(tensors)["ponder"].total, [unit.bias])
    delta = 1e-6
    costs = []

    for sign in (1, -1):
        with torch.no_grad():
            unit.bias.add_(sign * delta)
            costs.append(sum(slow(model, tensors["input_ids"][0, :7], causal=True)[2]))
            unit.bias.sub_(sign * delta)

    assert float(gradient) == pytest.approx((costs[0] - costs[1]) / (2 * delta), rel=1e-4)
    assert float(gradient) < 0


def test_without_halting_every_token_takes_every_step():
    model = model_of(epsilon=None)
    tensors = batch_for("encoder", lengths=[11])
    stack = model.family.stack
    x = stack.embeddings(
        model.family.tokens(tensors["input_ids"]), stack.position, tensors["position_ids"], None
    )

    for step in range(1, STEPS + 1):
        x = stack.layers[0](
            x + wave(step, DIM + 1)[:DIM], plan_attention(None, None, causal=False), None, None
        )

    assert torch.allclose(model.family(tensors), stack.norm(x), atol=1e-5)
    assert list(model(tensors)) == list(model.divisors) == ["masked_lm"]
    assert not [name for name, _ in model.named_parameters() if "universal" in name]
    assert len(model.family.layer_states(tensors)) == STEPS + 2 - 1


def quick_and_slow(family):
    """A model in which token 1 stops after the first step, and token 2 takes all."""
    model = model_of(
        family, position=POSITIONS["none"], norm_place="pre", emb_norm=False
    ).requires_grad_(False)
    for vector, size in (
        (model.family.tokens.weight[1], 50.0),
        (model.family.tokens.weight[2], -50.0),
    ):
        vector.zero_()[0] = size

    unit = model.family.stack.universal.halting
    unit.weight.zero_()[0, 0] = 1.0
    return model


def test_generation_with_a_cache_computes_the_same():
    """Also where all tokens of the prompt stop at once, and a later one reads them in every
    step."""
    model = quick_and_slow("decoder")
    ids = torch.tensor([[1, 1, 1, 1, 2, 7, 2, 1, 2], [1, 1, 1, 1, 2, 2, 9, 30, 4]])
    lengths = torch.full((2,), 9)
    positions = torch.arange(9).expand(2, 9)
    whole = model.logits({"input_ids": ids, "position_ids": positions, "lengths": lengths})["lm"]
    decoder = IncrementalDecoder(model, ids[:, :4].tolist(), None, prefix=False, tokens=5)
    for column in range(4, 9):
        assert torch.allclose(decoder.scores, whole[:, column - 1].float(), atol=1e-5)
        decoder.add(ids[:, column].tolist())


def test_layers_that_stop_by_token_have_no_states_of_all_tokens():
    model = model_of(heads={"classification": {"classes": 3}})
    for refused in (
        lambda: model.family.layer_states(batch_for("encoder")),
        lambda: model_of(heads={"classification": {"classes": 3, "exits": "joint"}}),
    ):
        with pytest.raises(ConfigurationError, match=r"share\.universal"):
            refused()
