"""The distance from `model.init_from`, against the weights in checkpoints."""

import math

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.hooks.layer_statistics import module_of
from clozeline.train.startup.announcements import dry_run
from tests.matrices import mark_slow_after
from tests.train.masked_set import write_config
from tests.train.runs import saved, start, steps


def distances(run, base, step):
    """Distances by layer of the weights of a checkpoint from those of another run that has them,
    too."""
    now = saved(run, step)
    then = saved(base)
    squares = {}
    for name in now.keys() & then.keys():
        square = float((now[name].double() - then[name].double()).square().sum())
        squares[module_of(name)] = squares.get(module_of(name), 0.0) + square

    return {module: math.sqrt(square) for module, square in squares.items()}


@pytest.mark.parametrize(("size", "stage"), mark_slow_after(1, [(1, 1), (2, 3)]))
def test_runs_record_their_distance_from_the_start(
    one_rank, two_ranks, tmp_path, shards, capsys, size, stage
):
    """Also after a resume, except where `init_from` holds other weights by then."""
    base = tmp_path / "base"
    output = tmp_path / "run"
    ranks = two_ranks if size == 2 else one_rank
    config = write_config(tmp_path / "base.yaml", shards, base, evaluate__max_rows=0)
    further = write_config(
        tmp_path / "run.yaml",
        shards,
        output,
        evaluate__max_rows=0,
        zero={"stage": stage, "persistent": 0},
        model__init_from=str(base),
        model__heads={"masked_lm": 1.0},
        hooks=["layer_statistics"],
        checkpoint={"every": 1, "keep_last": 9},
    )

    assert one_rank.run(start, config, ["steps=2"]) == [(0, "")]

    for last in (2, 4):
        assert ranks.run(start, further, [f"steps={last}"]) == [(0, "")] * size
    for record in steps(output):
        by_layer = distances(output, base, record["step"])
        assert record["layer_start_distances"] == pytest.approx(by_layer, rel=1e-5)
        assert record["start_distance"] == pytest.approx(math.hypot(*by_layer.values()), rel=1e-5)

    assert "start_distance" not in steps(base)[0]

    if size == 1:
        assert one_rank.run(start, config, ["steps=3"]) == [(0, "")]
        assert ranks.run(start, further, ["steps=5"]) == [(0, "")]
        assert ["start_distance" in record for record in steps(output)] == [True] * 4 + [False]
        dry_run(load_config(TrainConfig, further, ["steps=6"]))
        assert "distance   not recorded, because the initial weights" in capsys.readouterr().out
