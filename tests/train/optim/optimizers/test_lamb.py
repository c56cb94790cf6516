"""LAMB, and AdamW times the size of a parameter, against their rules, in fp64."""

import torch

from tests.train.optim.optimizers.injected import (
    SIZES,
    gradient,
    start_weights,
    whole_update,
)

RATE = 0.01
DECAY = 0.1
BETAS = (0.8, 0.95)
EPS = 1e-4


def from_the_paper(name, steps):
    """Algorithm 2, with φ(z) = z; vectors have no decay, and a ratio of 1."""
    weight = start_weights()[name].double()
    mean = torch.zeros_like(weight)
    square = torch.zeros_like(weight)
    decay = DECAY if weight.dim() > 1 else 0.0
    for step in range(1, steps + 1):
        found = gradient(name, SIZES[name], step).double()
        mean = BETAS[0] * mean + (1 - BETAS[0]) * found
        square = BETAS[1] * square + (1 - BETAS[1]) * found**2
        ratio = (mean / (1 - BETAS[0] ** step)) / ((square / (1 - BETAS[1] ** step)).sqrt() + EPS)
        update = ratio + decay * weight
        scale = weight.norm() / update.norm() if decay else 1.0
        weight = weight - RATE * scale * update
    return weight


def test_updates_are_those_of_the_paper():
    chosen = {
        "name": "lamb",
        "learning_rate": RATE,
        "weight_decay": DECAY,
        "betas": list(BETAS),
        "eps": EPS,
    }
    found = whole_update(chosen, 5)

    for name, weight in found.items():
        torch.testing.assert_close(weight.double(), from_the_paper(name, 5), rtol=1e-5, atol=1e-6)


def test_adamw_scale_multiplies_the_update_by_the_size_of_the_parameter():
    """The optimizer of nanoT5: the rate times the root mean square, at least 1e-3."""
    chosen = {"name": "adamw_scale", "learning_rate": RATE, "weight_decay": DECAY}
    found = whole_update({**chosen, "betas": list(BETAS), "eps": EPS}, 5)
    for name, weight in found.items():
        wanted = start_weights()[name].double()
        mean = torch.zeros_like(wanted)
        square = torch.zeros_like(wanted)
        for step in range(1, 6):
            slope = gradient(name, SIZES[name], step).double()
            mean = BETAS[0] * mean + (1 - BETAS[0]) * slope
            square = BETAS[1] * square + (1 - BETAS[1]) * slope**2
            root = (square / (1 - BETAS[1] ** step)).sqrt() + EPS
            size = wanted.square().mean().sqrt().clamp(min=1e-3)
            wanted = wanted - RATE * size * mean / (1 - BETAS[0] ** step) / root
            wanted = wanted * (1 - RATE * (DECAY if wanted.dim() > 1 else 0.0))
        torch.testing.assert_close(weight.double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_parameter_of_zeros_is_updated_as_by_adam():
    from clozeline.train.registries import OPTIMIZERS

    weight = torch.zeros(2, 3)
    groups = [{"name": "decay", "weight_decay": DECAY, "params": [weight]}]
    optimizer = OPTIMIZERS.resolve({"name": "lamb", "learning_rate": RATE}).build().build(groups)
    weight.grad = torch.full((2, 3), 7.0)
    optimizer.step()

    torch.testing.assert_close(weight, torch.full((2, 3), -RATE))
