"""Estimate the cost of a run before its first step: tokens, epochs, FLOPs, memory, least time."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import torch

from clozeline.arrays import Int64
from clozeline.model.build import Model
from clozeline.model.flop_counts import DocumentCounts
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.rows import RowBatch
from clozeline.train.configuration.config import TrainConfig, zero_stage
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.datasets import Datasets, check_length
from clozeline.train.data.sets.recorded_sets import read_first_block
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.data.stream.phases import Input, set_labels
from clozeline.train.evaluate import batches_of_pass

_ROWS_COUNTED_AT_ONCE: Final = 256
"""Rows of a batch whose labels are counted."""
_MIN_PRODUCTS: Final = 10
"""Smallest number of matrix products that measure a device; up to eight times as many if they are
short."""
_SECONDS_OF_PRODUCTS: Final = 0.3
"""Shortest time of these products."""
_DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
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
"""Dense bf16 FLOPs per second with fp32 accumulation → exact names of devices."""


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
    """Cost of a set in a phase."""

    name: str
    weight: float
    """share of the rows of a batch, filler included"""
    rows: int
    epoch_rows: int
    """rows with the filler at the end of an epoch"""
    tokens_per_row: float
    flops_per_row: float
    """means over real rows"""

    @property
    def tokens_of_row(self) -> float:
        """Its mean tokens in a row of the phase; filler has none."""
        return self.weight * self.tokens_per_row * self.rows / self.epoch_rows

    def count_real_rows(self, rows: float) -> float:
        """Return how many of the first `rows` rows of the set are not filler."""
        epochs, rest = divmod(rows, self.epoch_rows)
        return epochs * self.rows + min(rest, self.rows)


@dataclass(frozen=True)
class PhaseCost:
    """Steps of a phase of the data, and its sets."""

    steps: int
    rows_per_step: int
    sets: tuple[SetCost, ...]

    @property
    def tokens_of_step(self) -> float:
        """Mean tokens of a step."""
        return self.rows_per_step * sum(each.tokens_of_row for each in self.sets)

    def flops_of(self, rows: float) -> float:
        """Return the FLOPs of the first `rows` rows of the phase; filler costs nothing."""
        return sum(
            each.flops_per_row * each.count_real_rows(rows * each.weight) for each in self.sets
        )

    @property
    def flops_per_row(self) -> float:
        """Mean FLOPs over the rows of the mixture, with filler."""
        real = ((each.weight * each.rows / each.epoch_rows, each) for each in self.sets)
        return sum(share * each.flops_per_row for share, each in real)

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
    """rows of an evaluation over all held-out sets, without filler"""
    heldout_flops: float
    """FLOPs of an evaluation"""

    @property
    def rows_by_set(self) -> Counter[str]:
        """Rows that the run reads of each set, without filler."""
        rows = Counter[str]()
        for phase in self.phases:
            for each in phase.sets:
                rows[each.name] += round(each.count_real_rows(phase.rows * each.weight))
        return rows

    @property
    def tokens(self) -> float:
        """Tokens that the run reads, about: a set's mean is that of its first block."""
        return sum(
            each.tokens_per_row * each.count_real_rows(phase.rows * each.weight)
            for phase in self.phases
            for each in phase.sets
        )

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the run."""
        if not self.datasets.heldout:
            return 0
        every = self.config.evaluate.every
        return -(-self.config.last_step // every) if every else 1

    def flops_until(self, samples: int, skipped: Iterable[SkippedRows] = ()) -> float:
        """Return the FLOPs of training on the first `samples` rows, except those `skipped`.

        Evaluations are not included.
        """
        skipped_flops = sum(
            self.flops_until(stop) - self.flops_until(start) for _, start, stop in skipped
        )
        total = 0.0
        last = self.phases[-1]
        for phase in self.phases:
            rows = samples if phase is last else min(samples, phase.rows)
            total = total + phase.flops_of(rows)
            samples = samples - rows
        return total - skipped_flops

    @property
    def training_flops(self) -> float:
        """FLOPs of all steps."""
        return sum(phase.flops_of(phase.rows) for phase in self.phases)


def estimate_cost(
    config: TrainConfig,
    model: Model,
    datasets: Datasets,
    world_size: int,
) -> CostEstimate:
    """Estimate the cost from the manifests, the first block of each set, and the model's FLOPs."""
    # rows and FLOPs of an evaluation: forward passes alone, and none for filler
    batch = config.data.global_batch
    skips = config.data.max_damaged_fraction > 0
    heldout_rows = 0
    flops = 0.0
    for name, shards in datasets.heldout.items():
        pass_rows = batch * batches_of_pass(len(shards), batch, config.evaluate.max_rows)
        source = Input(shards, datasets.corruptions[name])
        _, row_flops = _cost_of_row(source, model, skip_damaged=skips, forward=True)
        rows = min(len(shards), pass_rows)
        heldout_rows = heldout_rows + rows
        flops = flops + rows * row_flops
    phases = tuple(_phase_costs(config.data, config.last_step, model, datasets))
    return CostEstimate(config, model, datasets, world_size, phases, heldout_rows, flops)


def _phase_costs(
    data: DataConfig, remaining: int, model: Model, datasets: Datasets
) -> Iterator[PhaseCost]:
    """Yield the cost of each phase until the `remaining` steps are used up."""
    position = 0
    lanes = data.lane_count
    skips = data.max_damaged_fraction > 0

    for phase in datasets.phases:
        end = phase.until_samples
        if not remaining or (end is not None and end <= position):
            continue

        # tokens and FLOPs per row, averaged over the mixture
        figures = [_cost_of_row(source, model, skip_damaged=skips) for source in phase.sources]
        sets = [source.shards for source in phase.sources]
        mixture = phase.mixture()
        weights = (mixture.counts / mixture.period).tolist()
        set_costs = tuple(
            SetCost(name, weight, len(shards), -(-len(shards) // lanes) * lanes, *figures_of_row)
            for name, weight, shards, figures_of_row in zip(
                set_labels(sets), weights, sets, figures, strict=True
            )
        )

        # steps until the phase or the run ends
        batch = phase.global_batch or data.global_batch
        tokens = sum(each.tokens_of_row for each in set_costs)
        batch *= max(1, math.ceil((data.batch_tokens or 0) / (batch * tokens)))
        steps = remaining if end is None else min(remaining, -(-(end - position) // batch))
        yield PhaseCost(steps, batch, set_costs)
        remaining = remaining - steps
        position = position + steps * batch


def _cost_of_row(
    source: Input,
    model: Model,
    *,
    skip_damaged: bool,
    forward: bool = False,
) -> tuple[float, float]:
    """Return the mean tokens and FLOPs per row, over a set's first block.

    `forward`: FLOPs of the forward pass alone.
    """
    # read the first block, and corrupt it if the run does
    rows = read_first_block(source.shards, skip_damaged=skip_damaged)

    if source.corruption is not None:
        rows, _ = source.corruption(rows, np.zeros(len(rows), np.uint16))
        # an objective may add more than the special tokens around a text, which the manifest counts
        texts = [rows.columns[name] for name in ("input_ids", "target_ids") if name in rows.columns]
        longest = max(int(column.lengths.max()) for column in texts)
        check_length(longest, model.config, source.shards.path)

    # count tokens and FLOPs of the model
    columns = {name: float(column.lengths.mean()) for name, column in rows.columns.items()}
    tokens = columns.get("input_ids", 0.0)
    # a decoder without a target reads the row of the encoder
    target = columns.get(
        "target_ids", tokens if model.family.architecture == "encoder_decoder" else 0.0
    )
    choices = columns.get("choice_starts", 1.0)
    sizes = max(1, round(tokens / choices)), round(target / choices), _labels_per_row(rows, source)
    documents = _documents_per_row(rows, source)
    count = model.forward_flops if forward else model.flops
    flops = choices * count(*sizes, documents)

    # a second view of the row
    second_length = columns.get("input_ids_b", 0.0)
    if "crop_length" in columns:  # a crop, and its special tokens
        second_length = float(rows.columns["crop_length"].values.mean()) + 2
    if second_length and model.reads_second_view:
        length = max(1, round(second_length))
        view_flops = model.family.flops(length, 0)
        view_flops += 0.0 if forward else model.body_backward_flops(length, view_flops)
        return tokens + target + second_length, flops + view_flops

    return tokens + target, flops


def _documents_per_row(rows: RowBatch, source: Input) -> DocumentCounts | None:
    """Return the mean number of documents of each length in a row.

    Return None if the documents of a row see each other.
    """
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
    """Return the number of tokens of each document; `starts` has their positions in their rows."""
    tokens = rows.columns[ids]
    positions = rows.columns[starts]
    first = flatten_positions(positions, tokens.offsets)
    lengths: Int64 = np.diff(np.append(first, tokens.offsets[-1]))
    return lengths


def _labels_per_row(rows: RowBatch, source: Input) -> float | None:
    """Return the mean number of labels per row; None if heads predict no labels."""
    collate = Collate.from_manifest(source.manifest)
    labels = 0
    for first in range(0, len(rows), _ROWS_COUNTED_AT_ONCE):
        chosen_rows = np.arange(first, min(first + _ROWS_COUNTED_AT_ONCE, len(rows)))
        columns = {name: rows.columns[name].take(chosen_rows) for name in collate.columns}
        batch = collate(columns, np.ones(len(chosen_rows), np.float32))
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
    """Return the bytes of state per rank, at a ZeRO stage; None: the configured one.

    From stage 1 on, the optimizer has fp32 master weights in addition to the model's (not on one
    fp32 rank at stages 1 and 2, see `zero_stage`). In bf16, weights and gradients take 2 bytes, but
    stage 1 accumulates gradients in fp32. The `frozen` parameters have weights only.
    """
    stage = zero_stage(config, world_size, stage)
    is_bf16 = config.precision == "bf16"
    width = 2 if is_bf16 else 4
    share = [1 if stage < threshold else world_size for threshold in (3, 2, 1)]
    gradient_width = 6 if is_bf16 and stage == 1 else 4
    hook_numbers = sum(hook.type.numbers for hook in config.all_hooks)
    states = 4 * (config.optimizer.type.states + hook_numbers)
    trained = parameters - frozen
    return MemoryEstimate(
        weights=width * parameters / share[0],
        gradients=gradient_width * trained / share[1],
        optimizer=(states if stage == 0 else states + 4) * trained / share[2],
    )


@cache
def operations_per_second(device: torch.device, precision: str) -> float:
    """Measure the FLOPs per second of matrix products on one rank; no step can be faster.

    The fastest of many short products counts: the first ones wait for threads and memory, and
    others for a busy core.
    """
    size = 512 if device.type == "cpu" else 8192  # accelerators need large matrices
    matrix = torch.full((size, size), 0.5, device=device, dtype=_DTYPES[precision])
    times: list[float] = []
    while len(times) < _MIN_PRODUCTS or (
        sum(times) < _SECONDS_OF_PRODUCTS and len(times) < 8 * _MIN_PRODUCTS
    ):
        began = time.perf_counter()
        float((matrix @ matrix).sum())
        times.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(times)


def peak_of(device: torch.device, precision: str, measured: float) -> float:
    """Return the peak FLOPs of a device: in bf16 from its data sheet if known, else `measured`."""
    if device.type != "cuda" or precision != "bf16":
        return measured
    name = torch.cuda.get_device_name(device).removeprefix("NVIDIA ")
    return next((peak for peak, names in _DATA_SHEETS.items() if name in names), measured)
