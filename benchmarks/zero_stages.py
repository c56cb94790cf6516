"""The four ZeRO stages on the same data: losses side by side, and the memory of each rank.

    python benchmarks/zero_stages.py [--steps 30] [--shards MANIFEST --config FILE] [--json FILE]

Two ranks train the same encoder from the same seed at stages 0, 1, 2 and 3 in fp32, dropout on; each stage in fresh
processes, so that resident memory is its own. Losses may differ from stage 0 by 1e-4 at most. Counted bytes are those
of weights, gradients and optimizer state; they are compared with the published formulas (arXiv 1910.02054).
Without `--shards` the data are random walks over a small vocabulary, written to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from pipeline.config import load_config
from pipeline.execution.unit_record import Output
from pipeline.rows import FIXED_COLUMNS, Ragged, Rows
from pipeline.shards import ColumnSpec, fixed_columns, write_manifest, write_shard
from train.config import TrainConfig
from train.cost_estimate import estimate_memory
from train.logs.journal import read_lines

ROOT = Path(__file__).resolve().parent.parent
RANKS = 2
STAGES = (0, 1, 2, 3)
VOCABULARY = 4000
WORDS = 200
"""Ids that occur: the first thing to be learnt, within a few steps."""
LENGTH = 64
LARGEST_DIFFERENCE = 1e-4
MEMORY_OVER_FORMULA = 1.15
PERSISTENT = 1_000
"""Parameters up to this many elements stay whole at stage 3, beside their slices (the trainer's default is larger)."""


def write_shards(folder: Path, rows: int = 2048) -> Path:
    """A masked-LM set of walks: the next token is near the last, so context tells a masked one."""
    draws = np.random.Philox(7).random_raw(rows * LENGTH * 2).reshape(2, rows, LENGTH)
    walks = np.cumsum(draws[0] % 3, axis=1) + draws[0][:, :1] % WORDS
    tokens = (10 + walks % WORDS).astype(np.uint16)
    places = np.sort(np.argsort(draws[1], axis=1)[:, : LENGTH * 15 // 100], axis=1)
    labels = np.take_along_axis(tokens, places, axis=1)
    np.put_along_axis(tokens, places, np.uint16(3), axis=1)
    fixed = {name: np.zeros(rows, dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"}
    fixed |= {"uid": np.arange(rows, dtype=np.uint64), "document_uid": np.zeros((rows, 16), np.uint8)}
    lists = {"input_ids": tokens, "label_positions": places.astype(np.uint16), "label_ids": labels}
    specs = [*fixed_columns(), *(ColumnSpec(name, "uint16", "list", name) for name in lists)]
    content = Rows(fixed, {name: Ragged.from_matrix(matrix) for name, matrix in lists.items()})
    shape: dict[str, Any] = {"block_rows": 240, "container": "arrow", "codec": "none"}
    info = write_shard(folder / "shard-00000-of-00001.arrow", content, specs, **shape)
    special = {"pad": 0, "mask": 3}
    facts = {"name": "none", "fingerprint": "0" * 64, "vocab_size": VOCABULARY, "special_ids": special, "sentinels": []}
    frame = {"padding_side": "right", "decoder_start": None}
    objective = {"name": "masked_lm", "label": "masked_lm", "options": {}, "architecture": "encoder", "frame": frame}
    write_manifest(
        folder,
        name="walks/train",
        kind="examples",
        seed=7,
        tokenizer=facts,
        columns=specs,
        objective={**objective, "heads": ["masked_lm"]},
        shards=[info],
        output=Output(folder),
        **shape,
    )
    return folder / "manifest.json"


def write_training(path: Path, **changes: Any) -> Path:
    """A BERT-like encoder of 1.3 million parameters."""
    model: dict[str, Any] = {"family": "encoder", "dim": 128, "layers": 4, "attention_heads": 4, "ffn_dim": 512}
    model |= {
        "heads": {"masked_lm": 1.0},
        "dropout": {"hidden": 0.1, "attention": 0.1},
        "position": {"maximum": LENGTH},
    }
    plain = {
        "model": model,
        "data": {"global_batch": 16, "micro_batch": 4, "lanes": 8},
        "optimizer": {"name": "adamw", "learning_rate": 0.001},
        "schedule": {"name": "linear", "warmup": 5},
        "checkpoint": {"every": None},
        "log": {"tensorboard": False},
        **changes,
    }
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return path


def train(config: Path, shards: Path, output: Path, overrides: list[str]) -> None:
    """Run the trainer on two ranks; stops with the trainer's own message if it fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = ["train/main.py", "--config", str(config), f"data.shards={shards}", f"output={output}", *overrides]
    shared = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    codes = [process.wait() for process in ranks]
    if any(codes):
        raise SystemExit(f"{' '.join(words)}: a rank failed")


def measure(config: Path, shards: Path, folder: Path, steps: int) -> dict[int, dict[str, Any]]:
    """Losses and memory of each stage."""
    found: dict[int, dict[str, Any]] = {}
    for stage in STAGES:
        output = folder / f"stage{stage}"
        length = [f"steps={steps}", f"schedule.steps={steps}"]
        train(config, shards, output, [*length, f"zero.stage={stage}", f"zero.persistent={PERSISTENT}"])
        events = [event for event in read_lines(output / "events.jsonl") if event["event"] == "memory"]
        found[stage] = {
            "losses": [record["loss"] for record in read_lines(output / "metrics.jsonl")],
            "memory": events[-1]["ranks"],
        }
    return found


def rows_of(found: dict[int, dict[str, Any]], config: TrainConfig, parameters: dict[str, int]) -> list[dict[str, Any]]:
    """The benchmark's rows: loss differences, and bytes against the formula."""
    rows = []
    for stage, result in found.items():
        pairs = zip(result["losses"], found[0]["losses"], strict=True)
        difference = max(abs(ours - base) for ours, base in pairs)
        rows.append(
            {
                "case": f"stage {stage}: largest loss difference",
                "ours": difference,
                "peer": 0.0,
                "peer_name": "stage 0",
                "ratio": None,
                "unit": "nats",
                "target": f"<= {LARGEST_DIFFERENCE}",
                "holds": difference <= LARGEST_DIFFERENCE,
            }
        )
    for stage, result in found.items():
        zero = {**config.__dict__, "zero": type(config.zero)(stage=stage)}
        expected = estimate_memory(type(config)(**zero), parameters["all"], RANKS).total
        expected += 4 * parameters["small"] * (stage == 3)
        counted = max(sum(rank[name] for name in ("weights", "gradients", "optimizer")) for rank in result["memory"])
        rows.append(
            {
                "case": f"stage {stage}: bytes of state a rank",
                "ours": counted,
                "peer": expected,
                "peer_name": "formula",
                "ratio": counted / expected,
                "unit": "bytes",
                "target": f"<= {MEMORY_OVER_FORMULA} x formula",
                "holds": counted <= MEMORY_OVER_FORMULA * expected,
            }
        )
    return rows


def count_parameters(output: Path) -> dict[str, int]:
    """Elements of all parameters, and of those small enough to stay whole at stage 3, from a checkpoint's index."""
    (path,) = (output / "checkpoints").glob("step-*/checkpoint.json")
    shapes = [record["shape"] for record in json.loads(path.read_text())["parameters"].values()]
    sizes = [int(np.prod(shape)) for shape in shapes]
    return {"all": sum(sizes), "small": sum(size for size in sizes if size <= PERSISTENT)}


def show(found: dict[int, dict[str, Any]], rows: list[dict[str, Any]], steps: int) -> None:
    """Print both tables."""
    table = Table(title=f"{RANKS} ranks, {steps} steps, fp32, the same data: memory in MiB a rank")
    held_names = ("weights", "gradients", "optimizer", "resident")
    for name in ("stage", "first loss", "last loss", "largest difference", *held_names):
        table.add_column(name, justify="right")
    for (stage, result), row in zip(found.items(), rows, strict=False):
        losses, memory = result["losses"], result["memory"]
        held = [" ".join(f"{rank[name] / 2**20:.1f}" for rank in memory) for name in held_names]
        table.add_row(str(stage), f"{losses[0]:.7f}", f"{losses[-1]:.7f}", f"{row['ours']:.1e}", *held)
    console = Console(width=130)
    console.print(table)
    for row in rows:
        verdict = "holds" if row["holds"] else "FAILS"
        console.print(f"{verdict}  {row['case']}: {row['ours']:.4g}, target {row['target']}")


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--shards", type=Path, help="manifest of a masked-LM set")
    parser.add_argument("--config", type=Path, help="training configuration for it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = options.shards or write_shards(folder)
        config = options.config or write_training(folder / "train.yaml")
        found = measure(config, shards, folder, options.steps)
        loaded = load_config(TrainConfig, config, [f"data.shards={shards}", f"output={folder}"])
        rows = rows_of(found, loaded, count_parameters(folder / "stage0"))
    show(found, rows, options.steps)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
