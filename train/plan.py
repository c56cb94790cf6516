"""What a run will cost, told before its first step: tokens, epochs, arithmetic, memory, and a bound on time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from model.build import Model
from train.config import TrainConfig, check_world
from train.datasets import Datasets

__all__ = ["MemoryEstimate", "Plan", "estimate_memory", "make_plan", "operations_per_second"]


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on each rank for state, without activations and buckets (arXiv 1910.02054, with AdamW's two moments)."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All three."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class Plan:
    """The figures of a run."""

    parameters: int
    steps: int
    horizon: int
    rows: int
    rows_per_step: int
    micro_batches: int
    world_size: int
    tokens_per_row: float
    flops_per_step: float
    memory: MemoryEstimate

    def lines(self, operations: float) -> list[str]:
        """The plan for a person; `operations` a second of one rank bound the time from below."""
        tokens = self.steps * self.rows_per_step * self.tokens_per_row
        epochs = self.steps * self.rows_per_step / self.rows
        flops = self.flops_per_step * self.steps
        seconds = flops / (operations * self.world_size)
        memory = self.memory
        return [
            f"model      {self.parameters:,} parameters",
            f"data       {self.rows:,} rows of {self.tokens_per_row:.1f} tokens on average",
            f"batch      {self.rows_per_step} rows a step = {self.world_size} ranks x {self.micro_batches} "
            f"micro-batches x {self.rows_per_step // self.world_size // self.micro_batches} rows",
            f"length     {self.steps:,} steps (schedule ends at {self.horizon:,}), {tokens:,.0f} tokens, "
            f"{epochs:.2f} epochs",
            f"arithmetic {flops:.3g} operations, at least {seconds:,.0f} s on {self.world_size} ranks of this machine",
            f"memory     {_mebibytes(memory.total)} a rank for weights {_mebibytes(memory.weights)}, gradients "
            f"{_mebibytes(memory.gradients)}, optimizer {_mebibytes(memory.optimizer)}; activations come on top",
        ]


def make_plan(config: TrainConfig, model: Model, datasets: Datasets, world_size: int) -> Plan:
    """Figures from the manifest, the first block of the data and the model's arithmetic.

    Raises:
        CorruptBlock: the first block is not what its index says.
    """
    rows = datasets.train.read_block(0)
    if datasets.corruption is not None:
        rows, _ = datasets.corruption(rows, np.zeros(len(rows), np.uint16))
    columns = {name: float(column.lengths.mean()) for name, column in rows.columns.items()}
    tokens, target, labels = columns.get("input_ids", 0.0), columns.get("target_ids", 0.0), columns.get("label_ids")
    flops = model.flops(max(1, round(tokens)), round(target), labels)
    parameters = model.num_parameters()
    return Plan(
        parameters=parameters,
        steps=config.steps,
        horizon=config.schedule.options.steps or config.steps,
        rows=datasets.rows,
        rows_per_step=config.data.global_batch,
        micro_batches=check_world(config, world_size),
        world_size=world_size,
        tokens_per_row=tokens + target,
        flops_per_step=flops * config.data.global_batch,
        memory=estimate_memory(config, parameters, world_size),
    )


def estimate_memory(config: TrainConfig, parameters: int, world_size: int) -> MemoryEstimate:
    """Bytes of state on each rank.

    fp32 at stage 0 has no separate masters; from stage 1 on the optimizer owns fp32 masters beside the model's own
    weights. In bf16 weights and gradients take 2 bytes, but stage 1 adds up gradients in fp32.
    """
    stage, half = config.zero.stage, config.precision == "bf16"
    width = 2 if half else 4
    share = [1 if stage < threshold else world_size for threshold in (3, 2, 1)]
    gradient_width = 6 if half and stage == 1 else width
    return MemoryEstimate(
        weights=width * parameters / share[0],
        gradients=gradient_width * parameters / share[1],
        optimizer=(8 if stage == 0 else 12) * parameters / share[2],
    )


def operations_per_second(device: torch.device, size: int = 512, repeats: int = 4) -> float:
    """Operations a second of a matrix product on one rank, the best of a few: no step can be faster."""
    matrix = torch.full((size, size), 0.5, device=device)
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        float((matrix @ matrix).sum())
        best = min(best, time.perf_counter() - began)
    return 2.0 * size**3 / best


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"
