"""Compiled runs, evaluations included: the losses of runs that are not compiled, but for dropout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.synthetic import tiny
from tests.train.test_objectives_train import LM, MASKED

STEPS = 12


def losses(world: World, config: Path, output: str, overrides: list[str]) -> list[float]:
    """Losses of each step, and of the evaluations after six and twelve of them."""
    assert run(load_config(TrainConfig, config, [f"output={output}", *overrides]), joined=world) == 0
    records = read_lines(Path(output) / "metrics.jsonl")
    steps = [record["loss"] for record in records if "loss" in record]
    return [*steps, *(record["heldout"]["heldout"]["loss"] for record in records if "heldout" in record)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "objective", "heads"), [("encoder", "masked_lm", MASKED), ("encoder_decoder", "span_corruption", LM)]
)
def test_a_compiled_run_trains_and_evaluates(
    one_rank: RankPool, tmp_path: Path, family: str, objective: str, heads: dict[str, Any]
) -> None:
    """With dropout a compiled layer draws its random numbers in another order, so that losses of steps differ."""
    config = write_config(
        tmp_path / "train.yaml", write_objective_sets(tmp_path / "set", objective), tmp_path / "unused",
        model__family=family, model__heads=heads, model__position={"maximum": 64}, data__global_batch=16,
        data__micro_batch=8, steps=STEPS, schedule__steps=STEPS, evaluate__every=6,
        checkpoint__every=None, watchdog_s=0.0,
    )  # fmt: skip
    difference = {}
    for rate in (0.0, 0.1):
        dropout = f"model.dropout={{hidden: {rate}, attention: {rate}, embedding: {rate}}}"
        ((plain,), (compiled,)) = (
            one_rank.run(losses, config, str(tmp_path / f"{rate}-{key}"), [dropout, f"compile={key}"], timeout=3000)
            for key in ("false", "true")
        )
        assert len(plain) == len(compiled) == STEPS + 2
        difference[rate] = max(abs(a - b) for a, b in zip(plain, compiled, strict=True))
    print(f"{family}: largest difference of a loss {difference[0.0]:.1g} without dropout, {difference[0.1]:.2g} with")
    assert difference[0.0] < 1e-4
    assert 0 < difference[0.1] < 0.5


def test_a_recurrent_family_is_not_compiled() -> None:
    sizes = {"model__cell_dim": 20, "model__heads": {"regularised_lm": 1.0}, "model__dropout": {}}
    unread = {"model__position": {"kind": "none"}, "model__attention_heads": 1, "model__ffn_dim": 1}
    tiny(model__family="awd_lstm", **sizes, **unread)
    with pytest.raises(ConfigurationError, match=r"compile: true expects .* the recurrence of the family awd_lstm"):
        tiny(model__family="awd_lstm", compile=True, **sizes, **unread)
