"""Time of a trainer's step against a bare torch loop over the same batches: what stream, ZeRO, records and logs cost.

    python benchmarks/trainer.py [--steps 24] [--repeats 3] [--json FILE]

One rank, stage 1, fp32, an encoder of 4 million parameters. The bare loop has its batches in memory, torch's own AdamW
and clipping, and writes nothing. Both run in turns in one process; the fastest median of the repeats counts, because
a neighbour on the machine can only slow a run down.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.table import Table
from zero_stages import LENGTH, write_shards, write_training

from model.build import build_model
from pipeline.config import load_config
from pipeline.shards import open_shards
from train.config import TrainConfig
from train.distributed import World, start
from train.logs.journal import read_lines
from train.parameter_groups import parameter_groups
from train.run import run
from train.stream.stream import Stream

TARGET = 1.10
SKIPPED = 4
"""First steps of each run, which allocate."""


def bare_loop(config: TrainConfig, steps: int) -> list[float]:
    """Milliseconds of each step without any of our machinery."""
    shards = open_shards(config.data.shards)
    data = config.data
    stream = Stream(
        shards, rank=0, world_size=1, seed=0, lanes=8, global_batch=data.global_batch, micro_batch=data.micro_batch
    )
    batches = [stream.next_step() for _ in range(steps)]
    stream.close()
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=1e-3, betas=(0.9, 0.98), eps=1e-6)
    times = []
    for step in batches:
        began = time.perf_counter()
        count = sum(len(batch.tensors["label_ids"]) for batch in step)
        for batch in step:
            (model(batch.tensors)["masked_lm"].total / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def trainer(config: Path, shards: Path, output: Path, steps: int, world: World) -> tuple[list[float], list[float]]:
    """Milliseconds from record to record of a whole run, and those spent on waiting for data."""
    overrides = [f"data.shards={shards}", f"output={output}", f"steps={steps}", "resume=never"]
    run(load_config(TrainConfig, config, overrides), joined=world)
    records = read_lines(output / "metrics.jsonl")
    stamps = [record["time"] for record in records]
    whole = [(after - before) * 1e3 for before, after in pairwise(stamps)]
    return whole, [record["step_ms"]["data"] for record in records]


def measure(steps: int, repeats: int) -> list[dict[str, Any]]:
    """Both loops in turns."""
    world = start()
    ours, peer, data = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = write_shards(folder, rows=1024)
        model = {"dim": 256, "layers": 4, "attention_heads": 4, "ffn_dim": 1024, "position": {"maximum": LENGTH}}
        model |= {"family": "encoder", "heads": {"masked_lm": 1.0}}
        config = write_training(folder / "train.yaml", model=model)
        loaded = load_config(TrainConfig, config, [f"data.shards={shards}", f"output={folder}"])
        for repeat in range(repeats):
            whole, waited = trainer(config, shards, folder / f"run{repeat}", steps, world)
            ours.append(median(whole[SKIPPED:]))
            data.append(median(waited[SKIPPED:]))
            peer.append(median(bare_loop(loaded, steps)[SKIPPED:]))
    world.shutdown()
    return [
        row("whole step", min(ours), min(peer), "bare torch loop", f"<= {TARGET} x", TARGET),
        row("waiting for data", min(data), min(ours), "whole step", "<= 0.02 x", 0.02),
    ]


def row(case: str, ours: float, peer: float, peer_name: str, target: str, bar: float) -> dict[str, Any]:
    """A row of the result."""
    figures = {"case": case, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ours / peer}
    return {**figures, "unit": "ms", "target": target, "holds": ours / peer <= bar}


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.steps, options.repeats)
    table = Table(title="trainer's step, 1 rank, ZeRO 1, fp32, 4 M parameters")
    for name in ("case", "ours", "peer", "peer_name", "ratio", "target", "holds"):
        table.add_column(name)
    for found in rows:
        figures = [f"{found[name]:.3f}" for name in ("ours", "peer")]
        verdict = "yes" if found["holds"] else "NO"
        table.add_row(found["case"], *figures, found["peer_name"], f"{found['ratio']:.3f}", found["target"], verdict)
    Console(width=110).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(found["holds"] for found in rows) else 1)


if __name__ == "__main__":
    main()
