"""Compiled runs, evaluations included: the losses of runs that are not compiled, but for dropout."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.model.build import build_model, freeze_base
from clozeline.train import engine
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run
from clozeline.train.startup import start_or_resume
from tests.model.adapters.adapted_models import case_of
from tests.train import runs
from tests.train.masked_set import write_config
from tests.train.synthetic import NO_DROPOUT, VOCABULARY, tiny, train_steps


def norms_in_a_row(world, adapters):
    """Gradient norms of an uncompiled and of a compiled training with each adapter, one after another."""
    original = engine.compile_layers
    engine.compile_layers = partial(original, backend="aot_eager")  # fails alike, in a tenth of the time
    found = []
    for name in adapters:
        options = {"name": name, **case_of(name)[1]}
        config = tiny(model__adapter=options, model__init_from="base", model__position__maximum=24, **NO_DROPOUT)
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


def test_a_compiled_training_after_others_has_its_own_gradients(one_rank):
    """torch would take graphs of the training before, whose parameters had other gradients."""
    adapters = ["bottleneck", "bitfit"]
    for name, norms in zip(adapters, one_rank.run(norms_in_a_row, adapters, timeout=3000)[0], strict=True):
        for plain, compiled in norms:
            assert compiled == pytest.approx(plain, rel=1e-5), name


def events(world, config, output, value):
    """Error, losses and failures to compile of a run where `auto` compiles, and the second graph always fails."""
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        if len(graphs) > 1:
            raise RuntimeError("no compiler here")
        return graph

    original, on_host = engine.compile_layers, start_or_resume._ON_HOST
    engine.compile_layers = partial(original, backend=backend)
    start_or_resume._ON_HOST = {**on_host, "compile": True}
    try:
        run(load_config(TrainConfig, config, [f"output={output}", f"compile={value}"]), joined=world)
        error = ""
    except Exception as failure:
        error = type(failure).__name__
    finally:
        engine.compile_layers, start_or_resume._ON_HOST = original, on_host
    losses = [record["loss"] for record in runs.steps(Path(output))]
    return error, losses, runs.events(Path(output), "not_compiled")


def test_auto_goes_on_where_compiling_fails(one_rank, tmp_path, shards):
    """In the middle of the first forward pass, and with the losses of a run that never compiled."""
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "unused", steps=3, evaluate__max_rows=0)
    plain, auto, true = (
        one_rank.run(events, config, str(tmp_path / value), value)[0] for value in ("false", "auto", "true")
    )
    assert len(plain[1]) == 3
    assert (auto[0], auto[1]) == (plain[0], plain[1])
    assert [len(plain[2]), len(auto[2]), len(true[2])] == [0, 1, 0]
    assert (true[0], true[1]) == ("BackendCompilerFailed", [])
