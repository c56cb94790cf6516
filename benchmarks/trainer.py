"""Time of a trainer's step against a bare torch loop over the same batches: what stream, ZeRO, records and logs cost.

    python benchmarks/trainer.py [--steps 44] [--repeats 5] [--json FILE]

One rank, stage 1, fp32, an encoder of 4 million parameters. The bare loop has its batches in memory, torch's own AdamW
and clipping, and writes nothing. Both run in turns in one process. CPU time is the judge, that of all threads; the
trainer's is what a run of all steps takes beyond one of its first steps, a share for each of the others. The medians of
the repeats are compared, and the range of their ratios stands beside. Of the wall clock the fastest medians are given,
because a neighbour on the machine can only slow a run down.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
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


def bare_loop(config: TrainConfig, steps: int) -> tuple[float, float]:
    """CPU and wall milliseconds of a step without any of our machinery."""
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
    times, cpu = [], 0.0
    for number, step in enumerate(batches):
        if number == SKIPPED:
            cpu = time.process_time()
        began = time.perf_counter()
        count = sum(len(batch.tensors["label_ids"]) for batch in step)
        for batch in step:
            (model(batch.tensors)["masked_lm"].total / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append((time.perf_counter() - began) * 1e3)
    return (time.process_time() - cpu) * 1e3 / (steps - SKIPPED), median(times[SKIPPED:])


def trainer(config: Path, shards: Path, output: Path, steps: int, world: World) -> tuple[float, list[dict[str, Any]]]:
    """CPU milliseconds of a whole run, and its records."""
    overrides = [f"data.shards={shards}", f"output={output}", f"steps={steps}", "resume=never"]
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        run(load_config(TrainConfig, config, overrides), joined=world)
    return (time.process_time() - began) * 1e3, read_lines(output / "metrics.jsonl")


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
        trainer(config, shards, folder / "first", SKIPPED, world)
        for repeat in range(repeats):
            begin, _ = trainer(config, shards, folder / f"begin{repeat}", SKIPPED, world)
            whole, records = trainer(config, shards, folder / f"run{repeat}", steps, world)
            walls = [(after["time"] - before["time"]) * 1e3 for before, after in pairwise(records)]
            ours.append(((whole - begin) / (steps - SKIPPED), median(walls[SKIPPED:])))
            data.append(median(record["step_ms"]["data"] for record in records[SKIPPED:]))
            peer.append(bare_loop(loaded, steps))
    world.shutdown()
    ratios = [mine[0] / other[0] for mine, other in zip(ours, peer, strict=True)]
    bare = f"bare torch loop, {min(ratios):.2f} to {max(ratios):.2f}"
    mine, other = (median(cpu for cpu, _ in side) for side in (ours, peer))
    wall, bare_wall = (min(wall for _, wall in side) for side in (ours, peer))
    return [
        row("CPU of a step", mine, other, bare, f"<= {TARGET} x", TARGET),
        row("wall of a step", wall, bare_wall, "bare torch loop", "-", math.inf),
        row("waiting for data", min(data), wall, "wall of a step", "<= 0.02 x", 0.02),
    ]


def row(case: str, ours: float, peer: float, peer_name: str, target: str, bar: float) -> dict[str, Any]:
    """A row of the result."""
    figures = {"case": case, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ours / peer}
    return {**figures, "unit": "ms", "target": target, "holds": ours / peer <= bar}


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=44)
    parser.add_argument("--repeats", type=int, default=5)
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
    Console(width=130).print(table)
    print(f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(found["holds"] for found in rows) else 1)


if __name__ == "__main__":
    main()
