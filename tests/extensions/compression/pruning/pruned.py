"""Engines that prune, on random rows, and what they hold afterwards."""

from pathlib import Path

import torch

from clozeline.train.checkpoint.checkpoints import restore
from clozeline.train.checkpoint.zero_partitions import fragments
from tests.train.synthetic import NO_DROPOUT, build, resume, save, tiny, train_steps


def pruned(prune, **changes):
    """A configuration that prunes 12 matrices of odd sizes in 8 steps."""
    return tiny(**{**NO_DROPOUT, "prune": prune, **changes})


def started(config, world, seed=1):
    engine = build(config, world, seed=seed)
    restore(engine, None, ())
    return engine


def tensors_of(engine, world):
    """The weight and the states of each entire parameter, from the pieces of all ranks."""
    shares = [
        (
            piece.name,
            piece.start,
            {key: view.detach().clone() for key, view in piece.tensors.items()},
        )
        for piece in fragments(engine, owned=True)
    ]

    pieces = sorted(
        (share for of_rank in world.gather(shares) for share in of_rank),
        key=lambda share: share[:2],
    )
    whole = {}
    for name, _, views in pieces:
        for key, view in views.items():
            whole.setdefault(name, {}).setdefault(key, []).append(view)

    return {
        name: {key: torch.cat(views) for key, views in states.items()}
        for name, states in whole.items()
    }


def train(world, config, steps=8, folder=None, target=None):
    """Losses and norms of some steps, and the tensors at the end.

    With a folder, saved and resumed after half.
    """
    engine = started(config, world)

    if folder is None:
        measured = train_steps(engine, 1, steps)
    else:
        measured = train_steps(engine, 1, steps // 2)
        save(engine, Path(folder), steps // 2)
        engine.close()
        engine = build(target or config, world, seed=2)
        resume(engine, Path(folder))
        restore(engine, None, ())
        measured += train_steps(engine, steps // 2 + 1, steps)

    tensors = tensors_of(engine, world)
    model = {
        name: parameter.detach().clone() for name, parameter in engine.model.named_parameters()
    }
    engine.close()
    if config.zero.stage < 3 and config.precision == "fp32":  # the model computes with the masters
        for name, states in tensors.items():
            assert torch.equal(states["weight"], model[name].flatten()), name

    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in measured], tensors


def plain_adamw(parameters):
    """The optimizer of these runs in plain torch; each step sets its rate."""
    own = list(parameters)
    groups = [
        {"params": [p for p in own if (p.dim() >= 2) == wide], "weight_decay": 0.1 * wide}
        for wide in (True, False)
    ]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-6)


def matrices(tensors):
    return {
        name: own
        for name, own in tensors.items()
        if ".layers." in name and name.endswith(".weight") and ".norm." not in name
    }


def zeros(tensor):
    return int((tensor == 0).sum())
