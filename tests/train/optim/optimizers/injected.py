"""Updates by given gradients, the same at every stage and world size."""

from zlib import crc32

import numpy as np
import torch

from clozeline.train.distributed.process_group import load_deepspeed
from clozeline.train.registries import OPTIMIZERS
from tests.train.synthetic import NO_DROPOUT, build, resume, save, tiny, train_steps

MATRICES = "matrix"
"""Name of the group of matrices, for Muon too."""
SIZES = {"table": (13, 4), "up": (7, 5), "up.bias": (7,), "down": (3, 7), "norm": (5,)}


def gradient(name, shape, step):
    """A gradient that is a function of parameter and step alone, of quite another size from step to
    step."""
    draws = np.random.default_rng([crc32(name.encode()), step]).normal(size=tuple(shape))
    return torch.tensor(draws * 10.0 ** (step % 3 - 1), dtype=torch.float32)


def configured(name, ranks, stage, **changes):
    """One micro-batch a rank and no clipping, so that the injected gradients are those of the step
    to the last bit."""
    chosen = {"name": name, "learning_rate": 0.01, "weight_decay": 0.1}
    plain = {
        "gradient_clipping": 0.0,
        "schedule": {"name": "constant", "steps": 8},
        "zero__persistent": 0,
    }
    if OPTIMIZERS.load_class(name).needs_heldout_losses:
        plain["evaluate__every"] = 8  # after the last step: its update never changes
    return tiny(
        optimizer=chosen,
        zero__stage=stage,
        data__micro_batch=8 // ranks,
        **{**plain, **NO_DROPOUT, **changes},
    )


def whole_weights(engine):
    """The weights that the model computes with, whole, on every rank."""
    found = {}

    for name, parameter in engine.model.named_parameters():
        with load_deepspeed().zero.GatheredParameters(
            [parameter], enabled=engine.config.zero.stage == 3
        ):
            found[name] = parameter.detach().float().clone()

    return found


def updated(world, config, first, last, source=None, target=None):
    """Weights after the steps `first..last` by injected gradients, resumed from and saved to
    directories."""
    engine = build(config, world)
    now = [0]

    def injecting(name):
        return lambda found: gradient(name, found.shape, now[0])

    for name, parameter in engine.model.named_parameters():
        parameter.register_hook(injecting(name))
    if source is not None:
        resume(engine, source)
    for step in range(first, last + 1):
        now[0] = step
        train_steps(engine, step, step)

    if target is not None:
        save(engine, target, last)
    found = {name: weight.numpy().tobytes() for name, weight in whole_weights(engine).items()}
    engine.close()
    return found


def stepped(chosen, groups, gradients):
    """Let an optimizer update the parameters of groups, in place, by the gradients of each step."""
    builder = OPTIMIZERS.resolve(dict(chosen)).build()
    optimizer = builder.build(groups)
    parameters = [parameter for group in groups for parameter in group["params"]]

    for of_step in gradients:
        for parameter, found in zip(parameters, of_step, strict=True):
            parameter.grad = found.clone()
        optimizer.step()


def groups_of(parameters, decay):
    """Return matrices with decay and vectors without, in the order of names."""
    matrices = [p for p in parameters.values() if p.dim() > 1]
    vectors = [p for p in parameters.values() if p.dim() == 1]
    return [
        {"name": MATRICES, "weight_decay": decay, "params": matrices},
        {"name": "no_decay", "weight_decay": 0.0, "params": vectors},
    ]


def start_weights():
    return {name: gradient(f"start of {name}", shape, 1) for name, shape in SIZES.items()}


def whole_update(chosen, steps):
    """The parameters of SIZES after some steps, each a tensor of its own."""
    parameters = start_weights()
    groups = groups_of(parameters, 0.1)
    names = {id(parameter): name for name, parameter in parameters.items()}
    order = [names[id(parameter)] for group in groups for parameter in group["params"]]
    stepped(
        chosen,
        groups,
        [[gradient(n, SIZES[n], step) for n in order] for step in range(1, steps + 1)],
    )

    return parameters
