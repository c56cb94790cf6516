"""The four ZeRO stages on the same data: losses, and the memory of each rank.

    python -m benchmarks.zero_stages [--steps 30] [--json FILE]

Two ranks train the same encoder from the same seed at stages 0, 1, 2 and 3 in fp32 with dropout,
each stage in fresh processes, so that resident memory is its own. Losses may differ from stage 0 by
at most 1e-4. Counted bytes are those of weights, gradients and optimizer state; they are compared
with the published formulas (arXiv 1910.02054). The data are random walks over a small vocabulary.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, figure, finish, parser, print_table, temporary_folder

import numpy as np
import yaml

from clozeline.configuration.config import load_config
from clozeline.pipeline.corrupt.objectives._masked_rows import MASKED_FEATURES
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, RowBatch
from clozeline.pipeline.shards import base_columns, feature_columns, write_manifest, write_shard
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.launcher import free_port
from clozeline.train.logs.cost_estimate import estimate_memory
from clozeline.train.logs.json_lines import read_lines, step_records

SMALLEST = "--steps 5"
RANKS = 2
STAGES = (0, 1, 2, 3)
VOCABULARY = 4000
WORDS = 200
"""Ids that occur, which a model learns within a few steps."""
LENGTH = 64
LARGEST_DIFFERENCE = 1e-4
MEMORY_OVER_FORMULA = 1.15
PERSISTENT = 1_000
"""Parameters up to this many elements stay complete on each rank at stage 3 (the trainer's default
is larger)."""


def write_shards(folder: Path, rows: int = 2048) -> Path:
    """Write a masked-LM set of random walks.

    Neighboring tokens are close, so context predicts a masked one.
    """
    draws = np.random.Philox(7).random_raw(rows * LENGTH * 2).reshape(2, rows, LENGTH)
    walks = np.cumsum(draws[0] % 3, axis=1) + draws[0][:, :1] % WORDS
    tokens = (10 + walks % WORDS).astype(np.uint16)
    positions = np.sort(np.argsort(draws[1], axis=1)[:, : LENGTH * 15 // 100], axis=1)
    labels = np.take_along_axis(tokens, positions, axis=1)
    np.put_along_axis(tokens, positions, np.uint16(3), axis=1)
    fixed = {
        name: np.zeros(rows, dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"
    }
    fixed |= {
        "uid": np.arange(rows, dtype=np.uint64),
        "document_uid": np.zeros((rows, 16), np.uint8),
    }
    lists = {
        "input_ids": tokens,
        "label_positions": positions.astype(np.uint16),
        "label_ids": labels,
    }

    specs = [*base_columns(), *feature_columns(MASKED_FEATURES, 1 << 16)]
    content = RowBatch(fixed, {name: Ragged.from_matrix(matrix) for name, matrix in lists.items()})
    shape: dict[str, Any] = {"block_rows": 240, "container": "arrow", "codec": "none"}
    info = write_shard(folder / "shard-00000-of-00001.arrow", content, specs, **shape)
    special = {"pad": 0, "mask": 3}
    facts = {
        "name": "none",
        "fingerprint": "0" * 64,
        "vocab_size": VOCABULARY,
        "special_ids": special,
        "sentinels": [],
    }

    frame = {"padding_side": "right", "decoder_start": None}
    objective = {
        "name": "masked_lm",
        "label": "masked_lm",
        "options": {},
        "architecture": "encoder",
        "frame": frame,
    }

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
    """Write the configuration of a BERT-like encoder of 1.3 million parameters."""
    model: dict[str, Any] = {
        "family": "encoder",
        "dim": 128,
        "layers": 4,
        "attention_heads": 4,
        "ffn_dim": 512,
    }

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
    """Run the trainer on two ranks; stop with its message if it fails."""
    words = [
        "train/main.py",
        "--config",
        str(config),
        f"data.shards={shards}",
        f"output={output}",
        *overrides,
    ]

    shared = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = []

    for rank in range(RANKS):
        environment = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        command = [sys.executable, *words]
        ranks.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        )

    codes = [process.wait() for process in ranks]
    if any(codes):
        raise SystemExit(f"{' '.join(words)}: a rank failed")


def measure(config: Path, shards: Path, folder: Path, steps: int) -> dict[int, dict[str, Any]]:
    """Return losses and memory of each stage."""
    results: dict[int, dict[str, Any]] = {}

    for stage in STAGES:
        output = folder / f"stage{stage}"
        length = [f"steps={steps}", f"schedule.steps={steps}"]
        train(
            config,
            shards,
            output,
            [*length, f"zero.stage={stage}", f"zero.persistent={PERSISTENT}"],
        )

        events = [
            event for event in read_lines(output / "events.jsonl") if event["event"] == "memory"
        ]
        losses = [record["loss"] for record in step_records(read_lines(output / "metrics.jsonl"))]
        results[stage] = {"losses": losses, "memory": events[-1]["ranks"]}

    return results


def compare(
    results: dict[int, dict[str, Any]], config: TrainConfig, sizes_of: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the loss differences of the stages, then their bytes against the formula."""
    differences = []
    sizes = []

    for stage, result in results.items():
        pairs = zip(result["losses"], results[0]["losses"], strict=True)
        difference = max(abs(ours - base) for ours, base in pairs)
        case = f"stage {stage}: largest loss difference"
        target = f"<= {LARGEST_DIFFERENCE}"
        holds = difference <= LARGEST_DIFFERENCE
        differences.append(figure(case, "nats", difference, 0.0, "stage 0", target, holds=holds))
        zero = {**config.__dict__, "zero": type(config.zero)(stage=stage)}
        expected = estimate_memory(type(config)(**zero), sizes_of["all"], RANKS).total
        expected += 4 * sizes_of["small"] * (stage == 3)
        counted = max(
            sum(rank[name] for name in ("weights", "gradients", "optimizer"))
            for rank in result["memory"]
        )
        case = f"stage {stage}: bytes of state a rank"
        target = f"<= {MEMORY_OVER_FORMULA} x formula"
        holds = counted <= MEMORY_OVER_FORMULA * expected
        sizes.append(figure(case, "bytes", counted, expected, "formula", target, holds=holds))

    return [*differences, *sizes]


def count_parameters(output: Path) -> dict[str, int]:
    """Count the elements of all parameters, and of those that stay complete at stage 3.

    Both are read from the index of a checkpoint.
    """
    (path,) = (output / "checkpoints").glob("step-*/checkpoint.json")
    shapes = [record["shape"] for record in json.loads(path.read_text())["parameters"].values()]
    sizes = [int(np.prod(shape)) for shape in shapes]
    return {"all": sum(sizes), "small": sum(size for size in sizes if size <= PERSISTENT)}


def main() -> int:
    """Train at every stage and compare; the exit code is 1 if a target is missed."""
    options = parser(__doc__, steps=30).parse_args()

    with temporary_folder() as folder:
        manifest = write_shards(folder)
        path = write_training(folder / "train.yaml")
        results = measure(path, manifest, folder, options.steps)
        loaded = load_config(TrainConfig, path, [f"data.shards={manifest}", f"output={folder}"])
        rows = compare(results, loaded, count_parameters(folder / "stage0"))

    names = ("weights", "gradients", "optimizer", "resident")
    cells = []

    for (stage, result), row in zip(results.items(), rows, strict=False):
        memory = [
            " ".join(f"{rank[name] / 2**20:.1f}" for rank in result["memory"]) for name in names
        ]
        losses = result["losses"]
        cells.append(
            (stage, f"{losses[0]:.7f}", f"{losses[-1]:.7f}", f"{row['ours']:.1e}", *memory)
        )

    title = f"{RANKS} ranks, {options.steps} steps, fp32, the same data: memory in MiB a rank"
    print_table(("stage", "first loss", "last loss", "largest difference", *names), cells, title)
    return finish(rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
