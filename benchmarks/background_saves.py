"""Cost of a checkpoint to the steps after it: blocking saves and background saves.

    python -m benchmarks.background_saves [--dim 512] [--layers 4] [--steps 41] [--json FILE]

One rank trains an encoder on random walks and saves after every tenth step, first with blocking saves, then in the
background (`checkpoint.asynchronous`). A step lasts from its line of metrics.jsonl to the next, so the cost of a save
counts for the step after it. Figures are milliseconds: the median step, the median of the steps right after a save, and
of the second to fourth step after one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import ROOT, parser, print_table, write_json

from benchmarks.zero_stages import LENGTH, write_shards
from clozeline.train.logs.json_lines import read_lines

EVERY = 10
LATER = (2, 3, 4)


def train(folder: Path, shards: Path, options: argparse.Namespace, *, background: bool) -> dict[str, float]:
    """Return the step times of one run, and the size of a checkpoint."""
    output = folder / ("background" if background else "waited")
    model = {"family": "encoder", "dim": options.dim, "layers": options.layers, "attention_heads": 8}
    model |= {"ffn_dim": 4 * options.dim, "position": {"kind": "rope"}, "dropout": {}, "heads": {"masked_lm": 1.0}}
    config = {
        "model": model, "data": {"shards": str(shards), "global_batch": 16, "micro_batch": 16, "lanes": 16},
        "optimizer": {"name": "adamw", "learning_rate": 1e-4}, "zero": {"stage": 0}, "steps": options.steps,
        "checkpoint": {"every": EVERY, "asynchronous": background}, "log": {"tensorboard": False},
        "output": str(output),
    }  # fmt: skip
    path = folder / "train.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    del environment["OMP_NUM_THREADS"], environment["OMP_THREAD_LIMIT"]  # train as a user does, on all cores
    command = [sys.executable, ROOT / "train/main.py", "--config", path]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    times = {record["step"]: record["time"] for record in read_lines(output / "metrics.jsonl")}
    milliseconds = {step: 1000 * (times[step] - times[step - 1]) for step in range(3, options.steps)}
    return {
        "median": statistics.median(ms for step, ms in milliseconds.items() if step % EVERY not in (1, *LATER)),
        "after a save": statistics.median(ms for step, ms in milliseconds.items() if step % EVERY == 1),
        "second to fourth": statistics.median(
            ms for at, ms in milliseconds.items() if at % EVERY in LATER and at > EVERY
        ),
        "megabytes": sum(file.stat().st_size for file in next((output / "checkpoints").glob("step-*")).iterdir()) / 1e6,
    }


def main() -> None:
    options = parser(__doc__, dim=512, layers=4, steps=41).parse_args()
    with tempfile.TemporaryDirectory() as name:
        shards = write_shards(Path(name))
        runs = {way: train(Path(name), shards, options, background=way == "background")
                for way in ("waited", "background")}  # fmt: skip
    rows = [
        (way, *(f"{ms[name]:.0f}" for name in ("megabytes", "median")),
         *(cell for name in ("after a save", "second to fourth")
           for cell in (f"{ms[name]:.0f}", f"{ms[name] / ms['median']:.2f}")))
        for way, ms in runs.items()
    ]  # fmt: skip
    head = ("save", "MB", "median step, ms", "after a save", "x median", "second to fourth", "x median")
    print_table(head, rows, f"rows of {LENGTH} tokens, 16 a step")
    write_json(options.json, runs)


if __name__ == "__main__":
    main()
