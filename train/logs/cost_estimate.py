"""Estimate the cost of a run before its first step: tokens, epochs, FLOPs, memory, and a lower bound on time."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import torch

from clozeline.arrays import Int64
from clozeline.model.build import Model
from clozeline.model.compression.distillation.student import Teacher
from clozeline.model.flop_counts import Documents
from clozeline.model.parameters.freezing import frozen_count
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet
from clozeline.terminal import duration_text
from clozeline.train.configuration.config import TrainConfig, zero_stage
from clozeline.train.data.sets.datasets import Datasets, check_length
from clozeline.train.data.sets.recorded_sets import read_first_block
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.data.stream.phases import Input, distinct_sets, set_labels
from clozeline.train.evaluate import batches_of_pass

_COUNTED_AT_ONCE: Final = 256
"""Rows of a batch whose labels are counted."""
_PRODUCTS: Final = 10
"""Smallest number of matrix products that measure a device; eight times as many if they are
short."""
_SECONDS_OF_PRODUCTS: Final = 0.3
_TYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
_DATA_SHEETS: Final = {
    312e12: (
        "A100-SXM4-40GB",
        "A100-SXM4-80GB",
        "A100-PCIE-40GB",
        "A100 80GB PCIe",
        "A800-SXM4-80GB",
        "A800 80GB PCIe",
    ),
    989e12: ("H100 80GB HBM3", "H200", "H800", "GH200 480GB"),
    835e12: ("H100 NVL", "H200 NVL"),
    756e12: ("H100 PCIe", "H800 PCIe"),
    148e12: ("H20",),
    2.25e15: ("B200",),
    2.5e15: ("GB200",),
    362e12: ("L40S",),
    181e12: ("L40",),
    121e12: ("L4",),
    165e12: ("A30", "GeForce RTX 4090"),
    150e12: ("A40",),
    125e12: ("A10",),
    155e12: ("RTX A6000",),
    71e12: ("GeForce RTX 3090",),
    209e12: ("GeForce RTX 5090",),
}
"""Dense bf16 FLOPs per second with fp32 accumulation → exact device names; an L40 is not an L4."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of state per rank, without activations and buckets (arXiv 1910.02054)."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """Total bytes."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class SetCost:
    """Cost of a set of a phase."""

    weight: float
    """share of the rows of a batch, filler included"""
    rows: int
    epoch_rows: int
    """with the filler rows at the end of an epoch"""
    flops_per_row: float
    """mean of the real rows"""

    def count_real(self, rows: float) -> float:
        """Return how many of the first `rows` rows of the set are no filler."""
        epochs, rest = divmod(rows, self.epoch_rows)
        return epochs * self.rows + min(rest, self.rows)


@dataclass(frozen=True)
class PhaseCost:
    """Steps in one phase of the data, and means over the rows of its mixture."""

    steps: int
    rows_per_step: int
    tokens_per_row: float
    flops_per_row: float
    shares: dict[str, float]
    """set → its share of the rows"""
    sets: tuple[SetCost, ...] = ()
    """what each set costs; empty: every row costs the mean"""

    def flops_of(self, rows: float) -> float:
        """Return the FLOPs of the first `rows` rows of the phase; filler, at the end of an epoch, costs nothing."""
        if not self.sets:
            return rows * self.flops_per_row
        return sum(each.flops_per_row * each.count_real(rows * each.weight) for each in self.sets)

    @property
    def rows(self) -> int:
        """Rows that these steps read."""
        return self.steps * self.rows_per_step


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of a run."""

    config: TrainConfig
    model: Model
    datasets: Datasets
    world_size: int
    phases: tuple[PhaseCost, ...]
    heldout_rows: int
    """rows of an evaluation over all held-out sets, with filler"""
    heldout_flops: float
    """FLOPs of an evaluation"""

    @property
    def rows_by_set(self) -> list[dict[str, float]]:
        """Rows that the run reads of each set, by phase."""
        return [
            {name: share * phase.rows for name, share in phase.shares.items()}
            for phase in self.phases
        ]

    @property
    def evaluations(self) -> int:
        """Evaluations of the run."""
        every = self.config.evaluate.every
        return (-(-self.config.last_step // every) if every else 1) if self.datasets.heldout else 0

    def flops_until(self, samples: int, skipped: Iterable[SkippedRows] = ()) -> float:
        """Return the FLOPs of training on the first `samples` rows but those `skipped`, without evaluations."""
        left_out = sum(
            self.flops_until(stop) - self.flops_until(start) for _, start, stop in skipped
        )
        total = 0.0
        last = self.phases[-1]
        for phase in self.phases:
            rows = samples if phase is last else min(samples, phase.rows)
            total = total + phase.flops_of(rows)
            samples = samples - rows
        return total - left_out

    @property
    def training_flops(self) -> float:
        """FLOPs of all steps."""
        return sum(phase.flops_of(phase.rows) for phase in self.phases)

    def least_seconds(self, operations: float) -> float:
        """Return the lower bound on the time of steps and evaluations, at `operations` per second of one rank."""
        flops = self.training_flops + self.evaluations * self.heldout_flops
        return flops / (operations * self.world_size)

    def lines(self, operations: float) -> Iterator[str]:
        """Yield the lines to print; `operations` per second of one rank give the lower bound on time."""
        config = self.config
        datasets = self.datasets
        size = self.world_size
        # totals over all phases, with evaluations
        read, steps = (
            sum(getattr(phase, name) for phase in self.phases) for name in ("rows", "steps")
        )
        tokens = sum(phase.rows * phase.tokens_per_row for phase in self.phases)
        training = self.training_flops
        flops = training + self.evaluations * self.heldout_flops
        # model and data
        parts = self.model.parameters_by_part
        counts = ", ".join(f"{part} {count:,}" for part, count in parts.items())
        yield f"model      {sum(parts.values()):,} parameters: {counts}"
        sets = distinct_sets(datasets.phases)
        epoch_rows = sum(_epoch_rows(shards, config) for shards in sets)
        filler = epoch_rows - datasets.rows
        more = (
            f"; the last batch of each pass is filled up with empty rows ({filler:,})"
            if filler
            else ""
        )
        yield f"data       {datasets.rows:,} rows of {tokens / read:.1f} tokens on average{more}"
        # batches and length
        fewest = config.data.batch_tokens
        about = "" if fewest is None else f"at least {fewest:,} tokens a step, about "
        for phase in self.phases:
            count = phase.rows_per_step // size // config.data.micro_batch
            rows = config.data.micro_batch
            when = f", for {phase.steps:,} steps" if len(self.phases) > 1 else ""
            shares = " + ".join(f"{share:.4g} {name}" for name, share in phase.shares.items())
            batch = (
                f"{phase.rows_per_step} rows a step = {size} ranks x {count} micro-batches x "
                f"{rows} rows"
            )
            yield f"batch      {about}{batch}{when}{f': {shares}' if len(phase.shares) > 1 else ''}"
        horizon = config.schedule.options.steps or config.last_step
        epochs = f"{tokens:,.0f} tokens, {read / epoch_rows:.2f} epochs"
        yield f"length     {steps:,} steps (schedule ends at {horizon:,}), {epochs}"
        # evaluations
        if not self.heldout_rows:
            yield "held-out   none: no evaluation"
        else:
            yield f"held-out   {self.heldout_rows:,} rows in each of {self.evaluations:,} evaluations"
            trained = {shards.digest for shards in sets}
            for name in (
                name for name, shards in datasets.heldout.items() if shards.digest in trained
            ):
                yield f"           {name} is also trained on: its loss says nothing about new text"
        # time and memory
        least = duration_text(self.least_seconds(operations))
        yield (
            f"arithmetic {flops:.3g} operations, {training / tokens:.3g} a training token: at "
            f"least {least} on "
            f"{size} rank{'s' * (size > 1)} of this machine, the time of the matrix products "
            "alone; the first steps "
            "measure the rest"
        )
        first = 1 if config.precision == "bf16" else 0
        count = self.model.num_parameters()
        frozen = frozen_count(self.model)
        memory = {
            stage: estimate_memory(config, count, size, stage, frozen=frozen)
            for stage in range(first, 4)
        }
        own = memory[config.zero.stage]
        on_host = {"none": "", "optimizer": " on the host", "parameters": ", all on the host"}[
            config.zero.offload
        ]
        yield (
            f"memory     {_mebibytes(own.total)} a rank for weights {_mebibytes(own.weights)}, "
            "gradients "
            f"{_mebibytes(own.gradients)}, optimizer {_mebibytes(own.optimizer)}{on_host}; "
            "activations come on top"
        )
        stages = [
            f"stage {stage}: {_mebibytes(estimate.total)}" for stage, estimate in memory.items()
        ]
        yield f"           {', '.join(stages)}, on {size} ranks"


def estimate_cost(
    config: TrainConfig,
    model: Model,
    datasets: Datasets,
    world_size: int,
    teacher: Teacher | None = None,
) -> CostEstimate:
    """Estimate from manifests, the first block of each set, and the FLOPs of the model and of a teacher in memory."""
    # rows and FLOPs of an evaluation: forward passes alone, and none for filler
    batch = config.data.global_batch
    read = 0
    flops = 0.0
    for name, shards in datasets.heldout.items():
        in_pass = batch * batches_of_pass(len(shards), batch, config.evaluate.max_rows)
        source = Input(shards, datasets.corruptions[name])
        _, own, theirs = _cost_of_row(source, config, model, teacher, forward=True)
        read = read + in_pass
        flops = flops + min(len(shards), in_pass) * (own + theirs)
    phases = tuple(_phase_costs(config, model, datasets, teacher))
    return CostEstimate(config, model, datasets, world_size, phases, read, flops)


def _phase_costs(
    config: TrainConfig, model: Model, datasets: Datasets, teacher: Teacher | None
) -> Iterator[PhaseCost]:
    remaining = config.last_step
    position = 0
    for phase in datasets.phases:
        end = phase.until_samples
        if not remaining or (end is not None and end <= position):
            continue
        # tokens and FLOPs per row, averaged over the mixture
        figures = np.array(
            [_cost_of_row(source, config, model, teacher) for source in phase.sources]
        )
        sets = [source.shards for source in phase.sources]
        mixture = phase.mixture()
        weights = (mixture.counts / mixture.period).tolist()
        of_sets = tuple(
            SetCost(weight, len(shards), _epoch_rows(shards, config), float(own + theirs))
            for weight, shards, (_, own, theirs) in zip(weights, sets, figures, strict=True)
        )
        figures *= [[each.rows / each.epoch_rows] for each in of_sets]  # filler has no tokens
        tokens, *flops = np.average(figures, axis=0, weights=mixture.counts).tolist()
        # steps until the phase or the run ends
        batch = phase.global_batch or config.data.global_batch
        batch *= max(1, math.ceil((config.data.batch_tokens or 0) / (batch * tokens)))
        steps = remaining if end is None else min(remaining, -(-(end - position) // batch))
        shares = mixture.row_shares([len(shards) for shards in sets], config.data.lane_count)
        labeled = dict(zip(set_labels(sets), shares, strict=True))
        yield PhaseCost(steps, batch, tokens, sum(flops), labeled, of_sets)
        remaining = remaining - steps
        position = position + steps * batch


def _epoch_rows(shards: ShardSet, config: TrainConfig) -> int:
    lanes = config.data.lane_count
    return -(-len(shards) // lanes) * lanes


def _cost_of_row(
    source: Input,
    config: TrainConfig,
    model: Model,
    teacher: Teacher | None,
    *,
    forward: bool = False,
) -> tuple[float, float, float]:
    """Return tokens, FLOPs, and those of the teacher per row, means over a set's first block.

    `forward`: FLOPs of the forward pass alone.
    """
    rows = read_first_block(source.shards, skip_damaged=config.data.max_damaged_fraction > 0)
    if source.corruption is not None:
        rows, _ = source.corruption(rows, np.zeros(len(rows), np.uint16))
        # an objective may add more than the special tokens around a text, which the manifest counts
        texts = [rows.columns[name] for name in ("input_ids", "target_ids") if name in rows.columns]
        check_length(max(int(column.lengths.max()) for column in texts), config, source.shards.path)
    columns = {name: float(column.lengths.mean()) for name, column in rows.columns.items()}
    tokens = columns.get(
        "input_ids", 0.0
    )  # a decoder without a target reads the row of the encoder
    target = columns.get(
        "target_ids", tokens if model.family.architecture == "encoder_decoder" else 0.0
    )
    choices = columns.get("choice_starts", 1.0)
    sizes = max(1, round(tokens / choices)), round(target / choices), _labels_per_row(rows, source)
    documents = _documents_per_row(rows, source)
    count = model.forward_flops if forward else model.flops
    flops = choices * count(*sizes, documents)
    theirs = choices * teacher.flops(*sizes, documents) if teacher is not None else 0.0
    second = columns.get("input_ids_b", 0.0)
    if "crop_length" in columns:  # a view with its special tokens
        second = float(rows.columns["crop_length"].values.mean()) + 2
    if second and model.reads_second_view:
        length = max(1, round(second))
        view = model.family.flops(length, 0)
        view += 0.0 if forward else model.body_backward_flops(length, view)
        return tokens + target + second, flops + view, theirs
    return tokens + target, flops, theirs


def _documents_per_row(rows: RowBatch, source: Input) -> Documents | None:
    """Return how many documents of each length a row has on average; None where they are not kept apart."""
    roles = source.manifest.roles
    if "document_starts" not in roles:
        return None
    tokens = _document_lengths(rows, "input_ids", "document_starts")
    targets = np.zeros_like(tokens)
    if "target_document_starts" in roles:
        targets = _document_lengths(rows, "target_ids", "target_document_starts")
    pairs = Counter(zip(tokens.tolist(), targets.tolist(), strict=True))
    return {pair: number / len(rows) for pair, number in pairs.items()}


def _document_lengths(rows: RowBatch, ids: str, starts: str) -> Int64:
    """Return the tokens of each document of all rows, which start at `starts` in their row."""
    tokens = rows.columns[ids]
    places = rows.columns[starts]
    first = np.repeat(tokens.offsets[:-1], places.lengths) + places.values.astype(np.int64)
    lengths: Int64 = np.diff(np.append(first, tokens.offsets[-1]))
    return lengths


def _labels_per_row(rows: RowBatch, source: Input) -> float | None:
    """Return the mean number of labels per row, counted in batches; None if heads predict something else."""
    collate = Collate.from_manifest(source.manifest)
    labels = 0
    for first in range(0, len(rows), _COUNTED_AT_ONCE):
        chosen = np.arange(first, min(first + _COUNTED_AT_ONCE, len(rows)))
        columns = {name: rows.columns[name].take(chosen) for name in collate.columns}
        batch = collate(columns, np.ones(len(chosen), np.float32))
        if "label_index" not in batch:
            return None
        labels += len(batch["label_index"])
    return labels / len(rows)


def estimate_memory(
    config: TrainConfig,
    parameters: int,
    world_size: int,
    stage: int | None = None,
    *,
    frozen: int = 0,
) -> MemoryEstimate:
    """Return the bytes of state per rank, at the configured ZeRO stage or another.

    From stage 1 on, the optimizer has fp32 master weights in addition to the model's (not on one
    fp32 rank at stages 1 and 2, see `zero_stage`). In bf16, weights and gradients take 2 bytes, but
    stage 1 accumulates gradients in fp32. The `frozen` parameters have weights only.
    """
    stage = zero_stage(config, world_size, stage)
    half = config.precision == "bf16"
    width = 2 if half else 4
    share = [1 if stage < threshold else world_size for threshold in (3, 2, 1)]
    gradient_width = 6 if half and stage == 1 else 4
    of_hooks = sum(hook.type.numbers for hook in config.hooks) + (
        config.model.init_from is not None
    )
    states = 4 * (config.optimizer.type.states + of_hooks)
    trained = parameters - frozen
    return MemoryEstimate(
        weights=width * parameters / share[0],
        gradients=gradient_width * trained / share[1],
        optimizer=(states if stage == 0 else states + 4) * trained / share[2],
    )


@cache
def operations_per_second(device: torch.device, precision: str) -> float:
    """Return the FLOPs per second of matrix products on one rank, measured once a process; no step can be faster.

    The fastest of many short products counts: the first ones wait for threads and memory, and
    others for a busy core.
    """
    size = 512 if device.type == "cpu" else 8192  # accelerators need large matrices
    matrix = torch.full((size, size), 0.5, device=device, dtype=_TYPES[precision])
    times: list[float] = []
    while len(times) < _PRODUCTS or (
        sum(times) < _SECONDS_OF_PRODUCTS and len(times) < 8 * _PRODUCTS
    ):
        began = time.perf_counter()
        float((matrix @ matrix).sum())
        times.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(times)


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


class Peak(NamedTuple):
    """FLOPs per second of one rank, and the origin of the number."""

    operations: float
    origin: str

    def line(self) -> str:
        """Return what a start prints."""
        return f"peak       {self.operations:.3g} operations a second on each rank: {self.origin}"


def peak_of(device: torch.device, precision: str, measured: float) -> Peak:
    """Return the peak of a device: from its data sheet in bf16 if known, else `measured` by a matrix product."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a processor"
    if precision == "bf16":
        for operations, names in _DATA_SHEETS.items():
            if name.removeprefix("NVIDIA ") in names:
                return Peak(operations, f"data sheet of {name}")
    unknown = f"no data sheet of {name} in {precision} is known here"
    return Peak(measured, f"measured, a matrix product in {precision}; {unknown}")
