"""The cost of a save to the steps around it: waited for, and in the background.

    python benchmarks/background_saves.py [--dim 512] [--layers 4] [--steps 41] [--json FILE]

One rank trains an encoder on random walks and saves after every tenth step; the same run once waits for its saves and
once writes them in the background (`checkpoint.asynchronous`). A step lasts from its line of metrics.jsonl to the next,
so that what a save costs counts to the step after it. Figures are milliseconds: the median step, the median of the
steps that follow a save at once, and of those that come second, third and fourth after one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks.zero_stages import LENGTH, write_shards
from train.logs.journal import read_lines

ROOT: Final = Path(__file__).resolve().parent.parent
EVERY: Final = 10
LATER: Final = (2, 3, 4)


def train(folder: Path, shards: Path, options: argparse.Namespace, *, background: bool) -> dict[str, float]:
    """Return the figures of one run, and the bytes of a checkpoint."""
    output = folder / ("background" if background else "waited")
    model = {"family": "encoder", "dim": options.dim, "layers": options.layers, "attention_heads": 8}
    model |= {"ffn_dim": 4 * options.dim, "position": {"kind": "rope"}, "dropout": {}, "heads": {"masked_lm": 1.0}}
    config: dict[str, Any] = {
        "model": model,
        "data": {"shards": str(shards), "global_batch": 16, "micro_batch": 16, "lanes": 16},
        "optimizer": {"name": "adamw", "learning_rate": 1e-4},
        "zero": {"stage": 0},
        "steps": options.steps,
        "checkpoint": {"every": EVERY, "asynchronous": background},
        "log": {"tensorboard": False},
        "output": str(output),
    }
    path = folder / "train.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    subprocess.run([sys.executable, ROOT / "train/main.py", "--config", path], check=True, env=environment,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    times = {one["step"]: one["time"] for one in read_lines(output / "metrics.jsonl")}
    lasted = {step: 1000 * (times[step] - times[step - 1]) for step in range(3, options.steps)}
    first = [ms for step, ms in lasted.items() if step % EVERY == 1]
    later = [ms for step, ms in lasted.items() if step % EVERY in LATER and step > EVERY]
    usual = [ms for step, ms in lasted.items() if step % EVERY not in (1, *LATER)]
    size = sum(file.stat().st_size for file in next((output / "checkpoints").glob("step-*")).iterdir())
    medians = [statistics.median(found) for found in (usual, first, later)]
    return dict(zip(("median", "after a save", "second to fourth"), medians, strict=True)) | {"megabytes": size / 1e6}


def main() -> None:
    """Run both, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = write_shards(folder)
        found = {
            way: train(folder, shards, options, background=way == "background") for way in ("waited", "background")
        }
    table = Table("save", "MB", "median step, ms", "after a save", "x median", "second to fourth", "x median")
    for way, ms in found.items():
        ratios = [ms[name] / ms["median"] for name in ("after a save", "second to fourth")]
        table.add_row(way, f"{ms['megabytes']:.0f}", f"{ms['median']:.0f}", f"{ms['after a save']:.0f}",
                      f"{ratios[0]:.2f}", f"{ms['second to fourth']:.0f}", f"{ratios[1]:.2f}")  # fmt: skip
    Console(width=110).print(table, f"rows of {LENGTH} tokens, 16 a step")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
