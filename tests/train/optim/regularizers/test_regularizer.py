"""Regularizers: their anchors, the pull to them, and runs that resume with them."""

from pathlib import Path

import pytest
import torch

from clozeline.train.checkpoint.checkpoints import restore
from clozeline.train.optim.regularizers._regularizer import pull
from clozeline.train.registries import REGULARIZERS
from tests.contracts import contract
from tests.declarations import declared
from tests.train.synthetic import NO_DROPOUT, build, resume, save, tiny, train_steps

FRESH = ("heads.masked_lm.transform.weight", "heads.masked_lm.projection.bias")
KEPT = {
    **NO_DROPOUT,
    "model__init_from": "elsewhere",
    "optimizer__weight_decay": 0.0,
    "optimizer__learning_rate": 0.02,
}


def kept(regularizer, **changes):
    return tiny(**{**KEPT, "regularizer": regularizer, **changes})


def steps(world, config, folder=None, target=None):
    """Six steps.

    With a folder, the last three after a save and a resume, perhaps with another configuration.
    """
    engine = build(config, world)
    restore(engine, None, FRESH)
    found = train_steps(engine, 1, 3)

    if folder is not None:
        save(engine, Path(folder), 3)
        engine.close()
        engine = build(target or config, world, seed=2)
        resume(engine, Path(folder))
        restore(engine, None, ())  # must change nothing

    found += train_steps(engine, 4, 6)
    engine.close()
    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]


def test_anchors_survive_another_stage(two_ranks, tmp_path):
    l2_sp = {"name": "l2_sp", "alpha": 20.0}
    straight = two_ranks.run(steps, kept(l2_sp))[0]
    hopped = two_ranks.run(
        steps,
        kept(l2_sp),
        str(tmp_path),
        kept(l2_sp, zero__stage=3),
    )[0]
    assert hopped == [pytest.approx(pair, rel=5e-6) for pair in straight]


def test_a_checkpoint_with_anchors_serves_a_run_without(two_ranks, tmp_path):
    free = kept({"name": "l2_sp", "alpha": 0.0, "beta": 0.0})
    assert two_ranks.run(steps, free, str(tmp_path), kept(None)) == two_ranks.run(steps, kept(None))


def test_weights_are_their_own_anchors_and_new_ones_fall_to_zero():
    regularizer = REGULARIZERS.resolve({"name": "l2_sp", "alpha": 0.5, "beta": 0.25}).build()
    weight = torch.tensor([1.0, 2.0])
    own, new = (regularizer.anchor("a", weight, 0, fresh=fresh) for fresh in (False, True))
    weight += 1.0  # later updates do not move the anchor

    assert (own.anchor.tolist(), own.strength.tolist()) == ([1.0, 2.0], [0.5, 0.5])
    assert (new.anchor.tolist(), new.strength.tolist()) == ([0.0, 0.0], [0.25, 0.25])


@contract(REGULARIZERS)
def test_anchors_are_those_of_any_part_and_the_pull_goes_there(name, tmp_path):
    """As another ZeRO stage cuts parameters."""
    options = declared(REGULARIZERS.package, name, "options", lambda folder: {})(tmp_path)
    regularizer = REGULARIZERS.resolve({"name": name, **options}).build()

    for fresh in (False, True):
        weight = torch.linspace(-2, 3, 6)
        whole = regularizer.anchor("a", weight, 0, fresh=fresh)
        kept = [part.clone() for part in whole]

        for part, piece in zip(
            whole, regularizer.anchor("a", weight[2:5], 2, fresh=fresh), strict=True
        ):
            assert torch.equal(part[2:5], piece)

        anchor, strength = kept

        assert bool((strength >= 0).all())

        weight += 1.0

        assert torch.equal(whole.anchor, anchor), "later updates do not move it"

        moved = weight.clone()
        pull(moved, anchor, strength, 0.1)

        assert bool(((moved - anchor).abs() <= (weight - anchor).abs()).all())

        still = anchor.clone()
        pull(still, anchor, strength, 0.1)

        assert torch.equal(still, anchor)


def test_what_is_free_or_at_its_anchor_keeps_every_bit():
    weight = torch.randn(1000)
    for anchor, strength in (
        (torch.randn(1000), torch.zeros(1000)),
        (weight.clone(), torch.full((1000,), 1e8)),
    ):
        moved = weight.clone()
        pull(moved, anchor, strength, 0.1)
        assert torch.equal(moved, weight)
