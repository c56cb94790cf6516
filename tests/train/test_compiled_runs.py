"""Compiled runs, evaluations included: the losses of runs that are not compiled, but for
dropout."""

from dataclasses import replace
from functools import partial

import pytest

from clozeline.model.build import build_model, freeze_base
from clozeline.train import engine
from tests.model.adapters.adapted_models import case_of
from tests.train.synthetic import NO_DROPOUT, VOCABULARY, tiny, train_steps


def norms_in_a_row(world, adapters):
    """Gradient norms of an uncompiled and of a compiled training with each adapter, one after
    another."""
    original = engine.compile_layers
    # fails alike, in a tenth of the time
    engine.compile_layers = partial(original, backend="aot_eager")
    found = []

    for name in adapters:
        options = {"name": name, **case_of(name)[1]}
        config = tiny(
            model__adapter=options,
            model__init_from="base",
            model__position__maximum=24,
            **NO_DROPOUT,
        )

        norms = []

        for compiled in (False, True):
            model = build_model(config.model, VOCABULARY, {}, seed=3)
            model.adapters[name].initialize_from(model.family, VOCABULARY, 3)
            freeze_base(model, [])
            built = engine.Engine(model, replace(config, compile=compiled), world)
            norms.append([float.fromhex(norm) for _, norm in train_steps(built, 1, 2)])
            built.close()

        found.append(list(zip(*norms, strict=True)))

    engine.compile_layers = original
    return found


@pytest.mark.slow
def test_a_compiled_training_after_others_has_its_own_gradients(one_rank):
    """torch would take graphs of the training before, whose parameters had other gradients."""
    adapters = ["bottleneck", "bitfit"]
    for name, norms in zip(
        adapters, one_rank.run(norms_in_a_row, adapters, timeout=3000)[0], strict=True
    ):
        for plain, compiled in norms:
            assert compiled == pytest.approx(plain, rel=1e-5), name
