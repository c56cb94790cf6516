"""Memory and time of a training step with each kind of adapter, beside full fine-tuning.

    python benchmarks/adapters.py [--steps 12] [--dim 192] [--layers 4] [--rows 16] [--tokens 32] [--json FILE]

A classification of rows by an encoder with rotary positions, fp32, AdamW, one thread, each kind in its own process.
Counted bytes are those of weights, of gradients and both moments of what trains, and of the tensors that the forward
pass keeps for the backward one: unique storages, parameters aside. They are the same on every machine. Beside them is
how far the resident memory of the process rose over that with the model loaded; it holds temporaries and the
allocator's reserves, too. The time is the median CPU time of a step.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from model.adaptation import add_adapter, freeze_base
from model.build import Model, build_model
from model.config import ModelConfig, PositionConfig

VOCABULARY = 8192
CASES: dict[str, dict[str, Any] | None] = {
    "full": None,
    "LoRA r 8, all linear": {"name": "lora", "targets": ["query", "key", "value", "out", "gate", "up", "down"]},
    "LoRA r 8, q and v": {"name": "lora"},
    "bottleneck 32": {"name": "bottleneck", "width": 32},
    "prefix 10": {"name": "prefix", "length": 10},
    "prompt 10": {"name": "prompt", "length": 10},
    "BitFit": {"name": "bitfit"},
    "frozen": {},
}
"""Adapters by what the table calls them; None trains everything, {} the head alone."""
TARGET = 0.6
"""Counted bytes of LoRA, at most, of those of full fine-tuning."""
MIB = 2**20


@dataclass(frozen=True)
class Shape:
    """Sizes of the body, and of a batch."""

    dim: int = 192
    layers: int = 4
    rows: int = 16
    tokens: int = 32
    vocabulary: int = VOCABULARY


@dataclass(frozen=True)
class Counted:
    """Bytes of a training step."""

    weights: int
    trained: int
    """numbers that train"""
    body: int
    """of them, in the body or beside it"""
    saved: int
    """kept from the forward pass for the backward one"""

    @property
    def state(self) -> int:
        """Gradients and both moments, fp32."""
        return 3 * 4 * self.trained

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.state + self.saved


def prepared(case: str, shape: Shape) -> Model:
    """Return the model of a case, with what does not train frozen."""
    config = ModelConfig(
        family="encoder",
        dim=shape.dim,
        layers=shape.layers,
        attention_heads=shape.dim // 32,
        ffn_dim=shape.dim * 8 // 3,
        norm="rms",
        activation="silu",
        gated=True,
        position=PositionConfig(kind="rope"),
        heads={"classification": {"classes": 2}},
    )
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


def batch_of(shape: Shape) -> dict[str, Tensor]:
    """Return rows of random tokens with labels."""
    draw = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(shape.vocabulary, (shape.rows, shape.tokens), generator=draw),
        "position_ids": torch.arange(shape.tokens)[None],
        "lengths": torch.full((shape.rows,), shape.tokens),
        "row_weight": torch.ones(shape.rows),
        "label": torch.randint(2, (shape.rows,), generator=draw),
    }


def counted(model: Model, tensors: dict[str, Tensor]) -> Counted:
    """Count the bytes of a step."""
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
        kept = sum(storages.values())  # while the graph holds them: no address comes twice
    (loss.total / loss.count).backward()
    trained = {name: parameter.numel() for name, parameter in parameters.items() if parameter.requires_grad}
    return Counted(
        weights=sum(parameter.nbytes for parameter in parameters.values()),
        trained=sum(trained.values()),
        body=sum(count for name, count in trained.items() if not name.startswith("heads.")),
        saved=kept,
    )


def measure(case: str, shape: Shape, steps: int) -> dict[str, Any]:
    """Return the figures of a case, from this process alone."""
    torch.set_num_threads(1)
    model, tensors = prepared(case, shape), batch_of(shape)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    before, seconds = _resident(), []
    for _ in range(steps):
        began = time.process_time()
        loss = model(tensors)["classification"]
        (loss.total / loss.count).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.process_time() - began)
    risen = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
    found = counted(model, tensors)
    whole = sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith("family."))
    return {
        "case": case, "trained": found.body, "share": found.body / whole, "weights": found.weights,
        "state": found.state, "saved": found.saved, "total": found.total, "risen": risen,
        "seconds": median(seconds[2:]),
    }  # fmt: skip


def _resident() -> int:
    """Return the bytes of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def show(rows: list[dict[str, Any]], shape: Shape) -> None:
    """Print the table."""
    table = Table(title=f"dim {shape.dim}, {shape.layers} layers, {shape.rows} x {shape.tokens} tokens; MiB")
    for name in ("", "trained beside the head", "share", "weights", "gradients, moments", "saved", "counted / full"):
        table.add_column(name, justify="right")
    table.add_column("resident, risen", justify="right")
    table.add_column("CPU time / full", justify="right")
    full = rows[0]
    for row in rows:
        sizes = (f"{row[name] / MIB:.1f}" for name in ("weights", "state", "saved"))
        ratios = (f"{row['total'] / full['total']:.2f}", f"{row['risen'] / MIB:.0f}", f"{_time(row, full):.2f}")
        table.add_row(row["case"], f"{row['trained']:,}", f"{row['share']:.2%}", *sizes, *ratios)
    Console(width=140).print(table)


def _time(row: dict[str, Any], full: dict[str, Any]) -> float:
    return float(row["seconds"] / full["seconds"])


def main() -> int:
    """Measure every case; exit code 1 if LoRA's counted bytes are above the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    for name, default in (("dim", 192), ("layers", 4), ("rows", 16), ("tokens", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shape = Shape(options.dim, options.layers, options.rows, options.tokens)
    rows = []
    for case in CASES:
        with multiprocessing.get_context("fork").Pool(1) as pool:  # what was imported is not loaded again
            rows.append(pool.apply(measure, (case, shape, options.steps)))
    show(rows, shape)
    full = rows[0]["total"]
    lines = [
        {
            "case": row["case"], "ours": row["total"], "peer": full, "peer_name": "full", "ratio": row["total"] / full,
            "unit": "counted bytes", "target": TARGET, "holds": row["total"] <= TARGET * full,
            "time_ratio": _time(row, rows[0]),
        }
        for row in rows[1:]
    ]  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return int(not all(line["holds"] for line in lines if line["case"].startswith("LoRA")))


if __name__ == "__main__":
    raise SystemExit(main())
