from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from clozeline.model.build import build_model
from clozeline.pipeline.rows import Rows
from clozeline.train.compression.distillation.teacher import Teacher
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.logs.cost_estimate import (
    CostEstimate,
    PhaseCost,
    estimate_cost,
    estimate_memory,
    operations_per_second,
    peak_of,
)
from tests.train.masked_set import write_masked_sets
from tests.train.objective_sets import write_objective_sets
from tests.train.synthetic import tiny


@pytest.mark.parametrize(
    ("stage", "precision", "world", "per_parameter", "hooks"),
    [
        *(
            (*case, ())
            for case in (
                (0, "fp32", 2, 4 + 4 + 8),
                (1, "fp32", 1, 4 + 4 + 8),
                (2, "fp32", 1, 4 + 4 + 8),
                (3, "fp32", 1, 4 + 4 + 12),
                (1, "bf16", 1, 2 + 6 + 12),
                (1, "fp32", 2, 4 + 4 + 12 / 2),
                (2, "fp32", 2, 4 + 4 / 2 + 12 / 2),
                (3, "fp32", 2, (4 + 4 + 12) / 2),
                (1, "bf16", 4, 2 + 6 + 12 / 4),
                (2, "bf16", 4, 2 + 16 / 4),
                (3, "bf16", 4, 18 / 4),
            )
        ),
        (1, "fp32", 2, 4 + 4 + 16 / 2, ("average",)),
    ],
)
def test_bytes_per_parameter(stage: int, precision: str, world: int, per_parameter: float, hooks: Any) -> None:
    estimate = estimate_memory(tiny(zero__stage=stage, precision=precision, hooks=list(hooks)), 1000, world)
    assert estimate.total == pytest.approx(1000 * per_parameter)


CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("name", "operations"),
    [("NVIDIA H200", 989e12), ("NVIDIA H200 NVL", 835e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA GH200 480GB", 989e12),
     ("NVIDIA H20", 148e12), ("A100-SXM4-40GB", 312e12), ("NVIDIA L40S", 362e12), ("NVIDIA L40", 181e12),
     *((unknown, None) for unknown in (
         "NVIDIA L400", "NVIDIA RTX A100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090 Laptop GPU"))],
)  # fmt: skip
def test_known_devices_have_their_makers_number_and_others_a_measured_one(
    monkeypatch: pytest.MonkeyPatch, name: str, operations: float | None
) -> None:
    """A slice of a device, and a device with a known part in its name, are others."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    found = peak_of(CUDA, "bf16", 3.0)
    assert found.operations == (operations or 3.0)
    assert ("data sheet of" if operations else f"no data sheet of {name} in bf16") in found.line()
    assert peak_of(CUDA, "fp32", 5.0).operations == 5.0
    assert "measured, a matrix product in bf16" in peak_of(torch.device("cpu"), "bf16", 2.0).line()


def test_operations_of_samples_follow_the_phases() -> None:
    """Steps of 8 rows at 10 operations a row, then of 16 rows at 100; rows beyond the plan cost what the last do."""
    phases = (PhaseCost(3, 8, 1.0, 10.0, {}), PhaseCost(2, 16, 1.0, 100.0, {}))
    nothing: Any = None
    cost = CostEstimate(nothing, nothing, nothing, 1, phases, 0, 0.0)
    per_row = [10.0] * 24 + [100.0] * 60
    assert [cost.flops_until(samples) for samples in range(84)] == [sum(per_row[:samples]) for samples in range(84)]
    skipped = [(1, 8, 16), (2, 20, 40)]
    per_row[8:16], per_row[20:40] = [0.0] * 8, [0.0] * 20
    assert [cost.flops_until(samples, skipped) for samples in range(40, 84)] == [
        sum(per_row[:samples]) for samples in range(40, 84)
    ]


def test_the_speed_is_that_of_the_fastest_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine products of 1 s wait for a busy core or for memory, the tenth takes 2 ms: 2 x 512^3 operations."""
    times = iter(np.cumsum(np.ravel([[0.0, 1.0]] * 9 + [[0.0, 0.002]])))
    monkeypatch.setattr("clozeline.train.logs.cost_estimate.time.perf_counter", lambda: next(times))
    assert operations_per_second(torch.device("cpu"), "fp32") == pytest.approx(2 * 512**3 / 0.002)


def labels_by_hand(rows: Rows) -> float:
    """Labels of each objective, as its columns tell them."""
    columns = rows.columns
    for name in ("label_ids", "prediction_order", "target_ids"):
        if name in columns:
            return float(columns[name].lengths.mean())
    first = columns["prefix_length"].values.clip(1) if "prefix_length" in columns else 1
    return float((columns["input_ids"].lengths - first).mean())


@pytest.mark.parametrize(
    ("objective", "family", "head"),
    [
        ("masked_lm", "encoder", "masked_lm"),
        ("causal_lm", "decoder", "lm"),
        ("prefix_lm", "decoder", "lm"),
        ("permuted_lm", "xlnet", "masked_lm"),
        ("span_corruption", "encoder_decoder", "lm"),
        ("mass", "encoder_decoder", "lm"),
    ],
)
def test_the_head_is_counted_at_labels_alone(tmp_path: Path, objective: str, family: str, head: str) -> None:
    """Those of a prefix are known from its length alone, and those of a permutation from its order."""
    apart: dict[str, Any] = {}
    if family == "xlnet":
        apart = {"model__position": {"kind": "sinusoidal"}, "model__bias": {"qkv": False, "out": False}}
    config = tiny(
        data__shards=str(write_objective_sets(tmp_path, objective)), output=str(tmp_path / "run"),
        data__global_batch=16, data__lanes=16, model__family=family,
        model__heads={head: {"transform": False} if apart else 1.0},
        **({"model__position": {"maximum": 64}} | apart),
    )  # fmt: skip
    datasets = open_datasets(config)
    facts = datasets.train.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    rows = datasets.train.read_block(0)
    tokens, target = (
        round(float(rows.columns[name].lengths.mean())) if name in rows.columns else 0
        for name in ("input_ids", "target_ids")
    )
    (phase,) = estimate_cost(config, model, datasets, 1).phases
    assert len(datasets.train) % 16 == 0  # no filler
    assert phase.flops_per_row == pytest.approx(model.flops(tokens, target, labels_by_hand(rows)), rel=1e-9)


@pytest.mark.parametrize(
    ("ends", "batches", "tokens", "steps"),
    [
        ((32, 64), (16, 8, 8), None, (2, 4, 4)),
        ((48, 64), (16, 8, 8), None, (3, 2, 5)),
        ((16, 24), (8, 8, 8), 24 * 11.8, (1, 9)),  # the second phase has ended before its first step
        ((80, 88), (8, 8, 8), None, (10,)),
    ],
)
def test_phases_end_at_their_boundaries(
    tmp_path: Path, shards: Path, ends: tuple[int, ...], batches: tuple[int, ...], tokens: float | None, steps: Any
) -> None:
    """Ten steps in all."""
    phases = [
        {"shards": str(shards), "global_batch": batch, **({} if end is None else {"until_samples": end})}
        for batch, end in zip(batches, (*ends, None), strict=True)
    ]
    config = tiny(data__shards=None, data__phases=phases, data__batch_tokens=tokens and round(tokens), data__lanes=1,
                  data__micro_batch=1, steps=10, schedule__steps=10, output=str(tmp_path))  # fmt: skip
    datasets = open_datasets(config)
    estimate = estimate_cost(config, build_model(config.model, 50, {}), datasets, 1)
    assert tuple(phase.steps for phase in estimate.phases) == steps


def test_shares_of_sets_are_those_of_rows(tmp_path: Path) -> None:
    """Six rows on 16 lanes come with 10 of filler: of equal weights, 3 of 11 rows."""
    sets = [str(write_masked_sets(tmp_path / str(rows), rows=rows, name=f"of {rows}")) for rows in (6, 48)]
    config = tiny(data__shards=sets, output=str(tmp_path / "run"), data__global_batch=16, data__lanes=16)
    datasets = open_datasets(config)
    estimate = estimate_cost(config, build_model(config.model, 50, {}), datasets, 1)
    (phase,) = estimate.phases
    assert phase.shares == pytest.approx({"of 6/train": 3 / 11, "of 48/train": 8 / 11})
    flops = phase.rows * phase.flops_per_row + estimate.evaluations * estimate.heldout_flops
    assert any("about 100 s on 2 ranks" in line for line in replace(estimate, world_size=2).lines(flops / 200))


def test_a_teacher_in_memory_is_counted(tmp_path: Path) -> None:
    """Its forward pass, which torch counts, in steps and in evaluations."""
    shards = write_masked_sets(tmp_path, rows=16, heldout=16, block_rows=16)
    config = tiny(
        data__shards=str(shards), data__heldout=str(shards), output=str(tmp_path / "run"), data__global_batch=16,
        data__lanes=16,
    )  # fmt: skip
    datasets = open_datasets(config)
    rows = datasets.train.read_block(0).columns
    tokens, labels = (round(float(rows[name].lengths.mean())) for name in ("input_ids", "label_ids"))
    teacher = Teacher(build_model(replace(config.model, layers=5), 50, {}), {"logits_masked_lm"})
    tensors = {"input_ids": torch.ones(1, tokens, dtype=torch.int64), "position_ids": torch.arange(tokens)[None],
               "lengths": torch.tensor([tokens]), "row_weight": torch.ones(1),
               "label_index": torch.arange(labels), "label_ids": torch.ones(labels, dtype=torch.int64)}  # fmt: skip
    with FlopCounterMode(display=False) as counter:
        teacher(tensors)
    # torch does not count the products of attention where a fused kernel on a CPU does them
    forward = counter.get_total_flops() + 5 * 4 * config.model.dim * tokens**2
    without, counted = (estimate_cost(config, teacher.model, datasets, 1, own) for own in (None, teacher))
    more = counted.phases[0].flops_per_row - without.phases[0].flops_per_row
    assert more == pytest.approx(forward, rel=0.02)  # means over rows have fractions of a label
    assert counted.heldout_flops - without.heldout_flops == pytest.approx(16 * forward, rel=0.02)
