"""Memory and time of a training step with each kind of adapter, compared with full fine-tuning.

    python -m benchmarks.adapters [--steps 12] [--dim 192] [--layers 4] [--rows 16] [--tokens 32] [--json FILE]

Classification by an encoder with rotary positions: fp32, AdamW, one thread, one process per adapter. Counted bytes are
weights, gradients and both moments of the trainable parameters, and the tensors saved for the backward pass (unique
storages other than parameters). They are the same on every machine. The rise in resident memory over the loaded model
also holds temporaries and the allocator's reserves. The time is the median CPU time of a step.
"""

import multiprocessing
import resource
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.harness import figure, parser, print_table, resident_bytes, write_json

import torch
from torch import Tensor

from clozeline.model.adaptation import add_adapter, freeze_base
from clozeline.model.build import Model, build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig

CASES: dict[str, dict[str, Any] | None] = {
    "full": None,
    "LoRA r 8, all linear": {"name": "lora", "targets": ["query", "key", "value", "out", "gate", "up", "down"]},
    "LoRA r 8, q and v": {"name": "lora"}, "bottleneck 32": {"name": "bottleneck", "width": 32},
    "prefix 10": {"name": "prefix", "length": 10}, "prompt 10": {"name": "prompt", "length": 10},
    "BitFit": {"name": "bitfit"}, "frozen": {},
}  # fmt: skip
"""Adapter of each row of the table; None trains everything, {} only the head."""
TARGET = 0.6
"""Largest share of the counted bytes of full fine-tuning that LoRA may take."""
MIB = 2**20


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and of a batch."""

    dim: int = 192
    layers: int = 4
    rows: int = 16
    tokens: int = 32
    vocabulary: int = 8192


@dataclass(frozen=True)
class StepBytes:
    """Bytes of a step: of all `weights`, and `saved` by the forward pass; how many parameters are trained."""

    weights: int
    trained: int
    body: int
    saved: int

    @property
    def state(self) -> int:
        """Gradients and both moments, fp32."""
        return 3 * 4 * self.trained

    @property
    def total(self) -> int:
        return self.weights + self.state + self.saved


def build_case(case: str, shape: Shape) -> Model:
    """Return the model of a case, with its frozen parameters frozen."""
    config = ModelConfig(
        family="encoder", dim=shape.dim, layers=shape.layers, attention_heads=shape.dim // 32,
        ffn_dim=shape.dim * 8 // 3, norm="rms", activation="silu", gated=True, position=PositionConfig(kind="rope"),
        heads={"classification": {"classes": 2}},
    )  # fmt: skip
    model = build_model(config, shape.vocabulary, {}, seed=0).train()
    adapter, head = CASES[case], [name for name, _ in model.named_parameters() if name.startswith("heads.")]
    if adapter:
        add_adapter(model, "own", adapter)
        model.use_adapter("own")
        freeze_base(model, head)
    elif adapter is not None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in head)
    return model


def random_batch(shape: Shape) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(shape.vocabulary, (shape.rows, shape.tokens), generator=generator),
        "position_ids": torch.arange(shape.tokens)[None],
        "lengths": torch.full((shape.rows,), shape.tokens),
        "row_weight": torch.ones(shape.rows),
        "label": torch.randint(2, (shape.rows,), generator=generator),
    }


def count_bytes(model: Model, tensors: dict[str, Tensor]) -> StepBytes:
    parameters = dict(model.named_parameters())
    own = {parameter.untyped_storage().data_ptr() for parameter in parameters.values()}
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(tensors)["classification"]
        saved = sum(storages.values())  # while the graph holds them, no address is used twice
    (loss.total / loss.count).backward()
    trained = {name: parameter.numel() for name, parameter in parameters.items() if parameter.requires_grad}
    return StepBytes(
        weights=sum(parameter.nbytes for parameter in parameters.values()), trained=sum(trained.values()),
        body=sum(count for name, count in trained.items() if not name.startswith("heads.")), saved=saved,
    )  # fmt: skip


def measure(case: str, shape: Shape, steps: int) -> dict[str, Any]:
    """Return the figures of a case; the process must be a fresh one."""
    torch.set_num_threads(1)
    model, tensors = build_case(case, shape), random_batch(shape)
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-3)
    before, seconds = resident_bytes(), []
    for _ in range(steps):
        start = time.process_time()
        loss = model(tensors)["classification"]
        (loss.total / loss.count).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.process_time() - start)
    risen = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
    counted = count_bytes(model, tensors)
    body = sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith("family."))
    return {
        "case": case, "trained": counted.body, "share": counted.body / body, "weights": counted.weights,
        "state": counted.state, "saved": counted.saved, "total": counted.total, "risen": risen,
        "seconds": median(seconds[2:]),
    }  # fmt: skip


def main() -> int:
    """Measure every case; the exit code is 1 if LoRA's counted bytes are above the target."""
    options = parser(__doc__, steps=12, dim=192, layers=4, rows=16, tokens=32).parse_args()
    shape = Shape(options.dim, options.layers, options.rows, options.tokens)
    rows = []
    for case in CASES:
        with multiprocessing.get_context("fork").Pool(1) as pool:  # forked, so that nothing is imported again
            rows.append(pool.apply(measure, (case, shape, options.steps)))
    full = rows[0]
    head = ("", "trained outside the head", "share", "weights", "gradients, moments", "saved", "counted / full",
            "resident, risen", "CPU time / full")  # fmt: skip
    cells = [
        (row["case"], f"{row['trained']:,}", f"{row['share']:.2%}",
         *(f"{row[name] / MIB:.1f}" for name in ("weights", "state", "saved")),
         f"{row['total'] / full['total']:.2f}", f"{row['risen'] / MIB:.0f}", f"{row['seconds'] / full['seconds']:.2f}")
        for row in rows
    ]  # fmt: skip
    print_table(head, cells, f"dim {shape.dim}, {shape.layers} layers, {shape.rows} x {shape.tokens} tokens; MiB")
    figures = [
        figure(row["case"], "counted bytes", row["total"], full["total"], "full", TARGET,
               holds=row["total"] <= TARGET * full["total"], time_ratio=row["seconds"] / full["seconds"])
        for row in rows[1:]
    ]  # fmt: skip
    write_json(options.json, figures)
    return int(not all(row["holds"] for row in figures if row["case"].startswith("LoRA")))


if __name__ == "__main__":
    raise SystemExit(main())
