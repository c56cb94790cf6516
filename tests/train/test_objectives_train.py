"""Objectives with heads of their own are learnt, and their losses do not depend on ranks and micro-batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import load_config
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from train.config import TrainConfig
from train.distributed import World
from train.logs.journal import read_lines
from train.run import run

STEPS = 30


@dataclass(frozen=True)
class Case:
    """An objective, and the heads that learn it."""

    objective: str
    heads: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    types: int = 0
    model: dict[str, Any] = field(default_factory=dict)


GENERATOR = {
    "model__family": "replaced_tokens",
    "model__generator": {"layers": 1, "dim": 16, "attention_heads": 2, "ffn_dim": 32},
}
XLNET = {
    "model__family": "xlnet",
    "model__position": {"kind": "sinusoidal"},
    "model__bias": {"qkv": False, "out": False},
}
WINDOWS = {
    "model__position": {"kind": "rope", "theta": 1000.0},
    "model__local": {"window": 4, "global_every": 2, "theta": 100.0},
    "model__bias": {"qkv": False, "out": False, "ffn": False, "norm": False, "head": False},
}
ALBERT = {"model__layers": 3, "model__share": {"groups": 1}, "model__emb_dim": 16}
CASES = {
    "windows": Case("masked_lm", {"masked_lm": 1.0}, {"mask_rate": 0.3, "cross_documents": False}, model=WINDOWS),
    "nsp": Case("next_sentence_prediction", {"masked_lm": 1.0, "sentence": 1.0}, types=2),
    "sop": Case("sentence_order_prediction", {"masked_lm": 1.0, "sentence": 1.0}, types=2, model=ALBERT),
    "sbo": Case("span_boundary", {"masked_lm": 1.0, "span_boundary": 1.0}),
    "rtd": Case("replaced_token_detection", {"token": 50.0}, {"replacement": "uniform"}),
    "clm": Case(
        "corrective_lm",
        {"corrective": 1.0, "similarity": {"temperature": 1.0, "group_size": 4, "negatives": "both"}},
        {"replacement": "shuffle"},
    ),
    "generator": Case("masked_lm", {"masked_lm": 1.0, "token": 50.0}, model=GENERATOR),
    "corrected generator": Case(
        "corrective_lm",
        {
            "masked_lm": 1.0,
            "corrective": 1.0,
            "similarity": {"temperature": 1.0, "group_size": 4, "negatives": "both"},
        },
        model=GENERATOR,
    ),
    "disentangled": Case(
        "replaced_token_detection",
        {"masked_lm": 1.0, "token": 50.0},
        model=GENERATOR | {"model__embedding_sharing": "disentangled"},
    ),
    "pairs": Case("sentence_comparison", {"similarity": {"group_size": 4}}),
    "plm": Case("permuted_lm", {"masked_lm": {"transform": False}}, {"frame": "xlnet"}, model=XLNET),
    "plm half": Case("permuted_lm", {"masked_lm": {"transform": False}}, {"prediction_rate": 0.5}, model=XLNET),
}
SOME = [pytest.param(case, id=name, marks=[] if name == "nsp" else pytest.mark.slow) for name, case in CASES.items()]


def learn(world: World, config: Path, output: str, overrides: list[str]) -> list[dict[str, Any]]:
    settings = load_config(TrainConfig, config, [f"output={output}", *overrides])
    assert run(settings, joined=world) == 0
    return read_lines(Path(output) / "metrics.jsonl") if world.rank == 0 else []


def configured(folder: Path, case: Case) -> Path:
    shards = write_objective_sets(folder / "set", case.objective, **case.options)
    return write_config(
        folder / "train.yaml", shards, folder / "unused", model__heads=case.heads, model__type_vocab_size=case.types,
        model__dim=32, model__ffn_dim=64, model__dropout={}, model__init={"std": 0.1},
        data__global_batch=16, data__micro_batch=8, data__lanes=4, optimizer__learning_rate=0.01, steps=STEPS,
        schedule__steps=STEPS, evaluate__every=STEPS, checkpoint__every=None,
        **({"model__position": {"maximum": 64}} | case.model),
    )  # fmt: skip


@pytest.mark.parametrize("case", SOME)
def test_the_loss_falls(one_rank: RankPool, tmp_path: Path, case: Case) -> None:
    (records,) = one_rank.run(learn, configured(tmp_path, case), str(tmp_path / "run"), [])
    losses = [record["loss"] for record in records if "loss" in record]
    assert len(losses) == STEPS
    assert sum(losses[-5:]) < 0.97 * sum(losses[:5])
    heldout = records[-1]["heldout"]["heldout"]
    assert math.isfinite(heldout["loss"])
    assert heldout["losses"].keys() == case.heads.keys()
    assert all(math.isfinite(loss) and loss > 0 for loss in heldout["losses"].values())
    judging = case.heads.keys() & {"token", "corrective"}
    figures = {f"{head}/{name}" for head in judging for name in ("accuracy", "replaced")}
    for found in (records[0]["figures"], heldout["figures"]):
        assert found.keys() == figures
        assert all(0 < share < 1 for share in found.values())


@pytest.mark.parametrize("case", SOME)
def test_ranks_and_micro_batches_change_nothing(
    one_rank: RankPool, two_ranks: RankPool, tmp_path: Path, case: Case
) -> None:
    config = configured(tmp_path, case)
    few = ["steps=3", "evaluate.every=3", "optimizer.learning_rate=1e-3"]
    (alone,) = one_rank.run(learn, config, str(tmp_path / "one"), [*few, "data.micro_batch=16"])
    together, _ = two_ranks.run(learn, config, str(tmp_path / "two"), [*few, "data.micro_batch=4", "zero.stage=2"])
    steps = [[record for record in records if "losses" in record] for records in (alone, together)]
    assert len(steps[0]) == len(steps[1]) == 3
    for mine, theirs in zip(*steps, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-5)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-4)
        assert theirs["losses"] == pytest.approx(mine["losses"], rel=1e-5)
        assert theirs["figures"] == pytest.approx(mine["figures"], rel=1e-12)
        assert theirs["tokens"] == mine["tokens"]
    ours, others = (records[-1]["heldout"]["heldout"] for records in (alone, together))
    assert others["losses"] == pytest.approx(ours["losses"], rel=1e-5)
    assert others["figures"] == pytest.approx(ours["figures"], rel=1e-12)
    assert others["labels"] == ours["labels"]
