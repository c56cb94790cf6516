"""The distance from the start, against the weights in checkpoints."""

import math
import shutil

import pytest

from clozeline.train.hooks.layer_statistics import module_of
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
    one_rank, two_ranks, tmp_path, shards, size, stage
):
    """Also after a resume, which does not read `init_from` again."""
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
        hooks=["start_distance"],
        checkpoint={"every": 1, "keep_last": 9},
    )

    assert one_rank.run(start, config, ["steps=2"]) == [(0, "")]

    then = shutil.copytree(base, tmp_path / "then")
    for last in (2, 4):
        assert ranks.run(start, further, [f"steps={last}"]) == [(0, "")] * size
        shutil.rmtree(base, ignore_errors=True)
    assert len(steps(output)) == 4
    for record in steps(output):
        by_layer = distances(output, then, record["step"])
        assert record["layer_start_distances"] == pytest.approx(by_layer, rel=1e-5)
        assert record["start_distance"] == pytest.approx(math.hypot(*by_layer.values()), rel=1e-5)
