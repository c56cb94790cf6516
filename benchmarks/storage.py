"""Bytes that a token of text takes on disk: example shards of two objectives, beside the forms that others store.

Samples are Zipf-distributed ids of a vocabulary of 32,000; real text is a little more regular. The forms: ids as 16-bit
integers (litdata, MDS, memmap), as a per-sample tar, and what scripts that mask once and save write: input ids,
labels and attention mask of equal length, as 64-bit integers in an Arrow file of datasets, or as 32-bit ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.corruption import samples, vocabulary
from pipeline.example import FIXED_COLUMNS, Ragged, Rows
from pipeline.objectives import build_objective
from pipeline.shards import feature_columns, fixed_columns, write_shard

_LENGTH = 512
_BLOCK_ROWS = 1920
_ENTRIES: tuple[dict[str, Any], ...] = (
    {"name": "masked_lm", "max_length": _LENGTH},
    {"name": "span_corruption", "input_length": _LENGTH},
)


def zipf_samples(rows: int, length: int) -> Rows:
    """Samples of the benchmark of corruption, with ids as frequent as words."""
    words = vocabulary()
    made = samples(rows, length, words)
    first = int(np.flatnonzero(~words.special)[0])
    uniform = np.random.Philox(1).random_raw(rows * length) / 2.0**64
    ids = first + np.minimum(words.size - first - 1, np.exp(uniform * np.log(words.size - first))).astype(np.int64)
    text = Ragged.from_matrix(ids.reshape(rows, length).astype(words.id_dtype))
    fixed: dict[str, Any] = {
        name: np.zeros((rows, 16), np.uint8) if dtype == "binary16" else np.zeros(rows, dtype)
        for name, dtype in FIXED_COLUMNS.items()
    }
    return Rows({**fixed, **made.fixed}, {**made.columns, "ids": text})


def measure(entry: dict[str, Any], rows: int, codec: Any, folder: Path) -> float:
    """Bytes a content token of an example shard."""
    words = vocabulary()
    objective = build_objective(entry, words)
    content = zipf_samples(rows, objective.raw_length)
    examples, skips = objective.corrupt(content, np.zeros(rows, np.uint16), 1)
    kept = examples.take(np.flatnonzero(skips == 0))
    columns = [*fixed_columns(), *feature_columns(objective.features, words.size)]
    kept = Rows({name: kept.fixed[name] for name in FIXED_COLUMNS}, kept.columns)
    info = write_shard(folder / "shard", kept, columns, block_rows=_BLOCK_ROWS, codec=codec)
    return info.bytes / (len(kept) * objective.raw_length)


def main() -> None:
    """Write each shard and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=3840)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for entry in (
            {"name": "masked_lm", "max_length": _LENGTH},
            {"name": "span_corruption", "input_length": _LENGTH},
        ):
            for codec in ("none", "zstd"):
                found[f"ours, {entry['name']}, {codec}"] = measure(entry, arguments.rows, codec, Path(temporary))
    found["ids alone, 16 bits"] = 2.0
    found["input ids, labels and mask, 32 bits"] = 12.0
    found["input ids, labels and mask, 64 bits"] = 24.0
    print("| form | bytes/token |\n|---|---|")
    for name, size in found.items():
        print(f"| {name} | {size:.2f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
