"""Promises of every hook, and the order in which they are called."""

from itertools import combinations

import pytest
import torch

from clozeline.model.configuration.capabilities import find_conflicts
from clozeline.train.checkpoint.checkpoints import restore
from clozeline.train.configuration.config import frozen
from clozeline.train.engine import hooks_of_run
from clozeline.train.hooks import Hook
from clozeline.train.registries import HOOKS
from docs.generate.combinations import every_part
from tests.contracts import contract
from tests.declarations import declared
from tests.extensions.compression.pruning.pruned import train
from tests.train.synthetic import RandomSource, build, tiny


def hooked(name, **changes):
    """A run with a hook; `CASE` in its own test file has the options, and keys of the `run`, that
    it needs."""
    return tiny(**{**choosing(f"hooks={name}"), **changes})


@contract(HOOKS)
def test_a_hook_resumes_to_the_bit_and_declares_its_states(name, one_rank, tmp_path):
    """With dropout; what only observes changes no bit."""
    kind = HOOKS.load_class(name)

    assert issubclass(kind, Hook)
    assert kind.__doc__

    ((losses, tensors),) = one_rank.run(train, hooked(name, zero__stage=2, precision="bf16"))
    ((again, resumed),) = one_rank.run(
        train, hooked(name, zero__stage=2, precision="bf16"), 8, str(tmp_path)
    )

    assert again == losses
    assert {key for own in tensors.values() for key in own} == {
        "weight",
        "exp_avg",
        "exp_avg_sq",
        *kind.keys,
    }

    for parameter, own in tensors.items():
        assert all(torch.equal(own[key], resumed[parameter][key]) for key in own), parameter
    if kind.observes:
        assert losses == one_rank.run(train, tiny(zero__stage=2, precision="bf16"))[0][0]


PACKAGES = {
    "hooks": "train.hooks",
    "prune": "extensions.compression.pruning",
    "optimizer": "train.optim.optimizers",
}
ACCEPTED = [
    pytest.param(part.key, other.key, id=f"{part.key} {other.key}")
    for (key, part), (chosen_by, other) in combinations(every_part(), 2)
    if {key, chosen_by} <= PACKAGES.keys() and (key != chosen_by or key == "hooks")
    if not any(find_conflicts(part, other))
]


def choosing(*parts):
    """The keys of a run that choose these parts; hooks are a list."""
    found = {"hooks": []}
    for part in parts:
        key, _, name = part.partition("=")
        case = declared(PACKAGES[key], name, "CASE", {})
        chosen = {"name": name, **case.get(key, case)}
        found |= case.get("run", {}) | {
            key: [*found["hooks"], chosen] if key == "hooks" else chosen
        }
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), ACCEPTED)
def test_each_pair_that_is_accepted_trains_and_resumes_to_the_bit(one, other, one_rank, tmp_path):
    keys = {"zero__stage": 2, "precision": "bf16", "evaluate__every": 8}
    config = tiny(**{**keys, **choosing(one, other)})
    ((losses, tensors),) = one_rank.run(train, config, 4)
    ((again, resumed),) = one_rank.run(train, config, 4, str(tmp_path))

    assert again == losses
    for parameter, own in tensors.items():
        assert own.keys() == resumed[parameter].keys()
        assert all(torch.equal(own[key], resumed[parameter][key]) for key in own), parameter


def recorded(world, config):
    """The records of two steps."""
    engine = build(config, world)
    restore(engine, None, ())
    found = []

    for step in (1, 2):
        batches = list(RandomSource(config, world).next_step())
        counts = {
            "masked_lm": world.sum_over_ranks(
                [sum(engine.heads["masked_lm"].count(b.tensors) for b in batches)]
            )[0]
        }

        found.append(
            {"step": step, **engine.step(batches, counts, step, 1e-3, observe=True).record}
        )

    engine.close()
    return found


@contract(HOOKS)
def test_a_chart_draws_what_the_hook_records(name, one_rank):
    charts = HOOKS.load_class(name).charts
    records = one_rank.run(recorded, hooked(name))[0] if charts else []
    for chart in charts:
        assert chart.points(records), chart.title


@contract(HOOKS)
def test_a_resumed_run_may_change_what_observes_alone(name):
    assert (frozen(hooked(name)) == frozen(tiny())) == HOOKS.load_class(name).observes


def test_statistics_come_before_what_changes_gradients_and_distances_last():
    changes = {
        "model__init_from": "elsewhere",
        "optimizer__weight_decay": 0.0,
        "regularizer": "l2_sp",
    }

    config = tiny(
        **changes,
        hooks=["start_distance", {"name": "unfreezing", "every": 2}, "layer_statistics"],
        prune={"name": "magnitude", "sparsity": 0.5},
    )

    order = [type(hook).__name__ for hook in hooks_of_run(config)]

    assert order == [
        "LayerStatistics",
        "L2Sp",
        "Unfreezing",
        "MagnitudePruning",
        "StartDistance",
    ]
