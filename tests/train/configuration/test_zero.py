"""State in the memory of the host: the same training, saved and resumed, with and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.zero_partitions import memory
from clozeline.train.configuration.config import TrainConfig, frozen, zero_stage
from clozeline.train.distributed.process_group import World
from clozeline.train.engine import Engine
from tests.distributed import RankPool
from tests.matrices import mark_slow_but
from tests.train.synthetic import build, resume, save, tiny, train_steps

Steps = list[tuple[float, float]]


def on_the_host(engine: Engine) -> str:
    """The value of `zero.offload` that DeepSpeed works by."""
    zero = engine.zero.engine.optimizer
    optimizer = getattr(zero, "cpu_offload", False) or getattr(zero, "offload_optimizer", False)
    return "parameters" if getattr(zero, "offload_param", False) else "optimizer" if optimizer else "none"


def saved(world: World, config: TrainConfig, folder: str) -> Steps:
    """Six steps, saved after the third."""
    engine = build(config, world)
    assert on_the_host(engine) == config.zero.offload
    found = train_steps(engine, 1, 3)
    assert memory(engine)["gradients"] > 0
    save(engine, Path(folder), 3)
    found += train_steps(engine, 4, 6)
    engine.close()
    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]


def resumed(world: World, config: TrainConfig, folder: str) -> Steps:
    """The last three, from other initial weights."""
    engine = build(config, world, seed=99)
    resume(engine, Path(folder))
    found = train_steps(engine, 4, 6)
    engine.close()
    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]


CASES = [("bf16", 2, "optimizer"), ("fp32", 1, "optimizer"), ("bf16", 3, "parameters")]
"""The grid compares every stage with a plain loop."""


def close(precision: str, stage: int, expected: Steps) -> list[Any]:
    """Losses to 1e-6; at stage 3 norms have another order of sums, of which bf16 makes a step of a weight at times."""
    absolute, relative = (5e-5, 1e-4) if (precision, stage) == ("bf16", 3) else (1e-6, 1e-6)
    return [(pytest.approx(loss, abs=absolute), pytest.approx(norm, rel=relative)) for loss, norm in expected]


@pytest.mark.parametrize(("precision", "stage", "offload"), mark_slow_but(CASES[:1], CASES))
def test_the_host_trains_as_the_device_does(
    two_ranks: RankPool, tmp_path: Path, precision: str, stage: int, offload: str
) -> None:
    """With dropout, two micro-batches, clipping and buckets that fill up; resumed to the bit, and without the key."""
    changes: dict[str, Any] = {"precision": precision, "zero__stage": stage, "zero__bucket": 600}
    device, host = tiny(**changes), tiny(**changes, zero__offload=offload)
    expected = two_ranks.run(saved, device, str(tmp_path / "device"))[0]
    assert max(norm for _, norm in expected) > 1.0
    found = two_ranks.run(saved, host, str(tmp_path / "host"))[0]
    assert found == close(precision, stage, expected)
    assert two_ranks.run(resumed, host, str(tmp_path / "host"))[0] == found[3:]
    for config, folder in ((device, "host"), (host, "device")):
        assert two_ranks.run(resumed, config, str(tmp_path / folder))[0] == close(precision, stage, expected[3:])


def test_one_rank_in_fp32_keeps_its_stage_where_masters_are_on_the_host() -> None:
    """It would run stages 1 and 2 as stage 0, where nothing is on the host; a resumed run may move its state."""
    host = tiny(zero__offload="optimizer")
    assert [zero_stage(tiny(), 1), zero_stage(host, 1), zero_stage(host, 2)] == [0, 1, 1]
    assert frozen(tiny(zero__stage=3, zero__offload="parameters")) == frozen(tiny())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zero": {"stage": 0, "offload": "optimizer"}}, "zero.offload: optimizer needs zero.stage 1 or more, got 0"),
        ({"zero": {"stage": 2, "offload": "parameters"}}, "zero.offload: parameters needs zero.stage 3 or more, got 2"),
        ({"zero": {"stage": 1, "offload": "optimizer"}, "precision": "bf16"}, "set zero.stage=2"),
        ({"zero": {"stage": 2, "offload": "optimizer"}, "hooks": ["average"]}, "together with zero.offload"),
        *(
            (
                {"zero": {"stage": 2, "offload": "optimizer"}, "optimizer": {"name": name}, "evaluate": {"every": 2}},
                f"zero.offload: the update of {name} needs more",
            )
            for name in ("muon", "adafactor", "nt_asgd")
        ),
    ],
)
def test_what_the_host_cannot_do_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tiny(**change)
