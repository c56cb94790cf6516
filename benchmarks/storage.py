"""Bytes that a token of text takes on disk: ours beside the formats of others, for ids and for two objectives.

Samples are Zipf-distributed ids of a vocabulary of 32,000; real text is a little more regular. The others are given the
same training features as 16-bit integers, without the columns by which ours trace a row to its document. The last forms
are what scripts that mask once and save write: input ids, labels and attention mask side by side, as 32-bit or 64-bit
integers (labels as long as the input for masked LM, as long as the target for span corruption).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.corruption import samples, vocabulary
from benchmarks.peers import records
from benchmarks.peers.clozeline import origins
from benchmarks.peers.limits import Claim, write_json
from pipeline.objectives import build_objective
from pipeline.rows import FIXED_COLUMNS, Ragged, Rows
from pipeline.shards import ColumnSpec, feature_columns, fixed_columns, write_shard

_LENGTH = 512
_BLOCK_ROWS = 1920
_ENTRIES: tuple[dict[str, Any], ...] = (
    {"name": "masked_lm", "max_length": _LENGTH},
    {"name": "span_corruption", "input_length": _LENGTH},
)


@dataclass(frozen=True)
class Content:
    """Rows to be stored.

    Args:
        name: what they are.
        rows: with all columns.
        columns: list columns, as a manifest describes them.
        tokens: of text.
        dense: integers that dense input ids, labels and attention mask take.
    """

    name: str
    rows: Rows
    columns: list[ColumnSpec]
    tokens: int
    dense: int


def zipf_samples(rows: int, length: int) -> Rows:
    """Return samples of the benchmark of corruption, with ids as frequent as words."""
    words = vocabulary()
    made = samples(rows, length, words)
    first = int(np.flatnonzero(~words.special)[0])
    uniform = np.random.Philox(1).random_raw(rows * length) / 2.0**64
    ids = first + np.minimum(words.size - first - 1, np.exp(uniform * np.log(words.size - first))).astype(np.int64)
    text = Ragged.from_matrix(ids.reshape(rows, length).astype(words.id_dtype))
    return Rows(origins(rows, 1), {**made.columns, "ids": text})


def plain(rows: int) -> Content:
    """Return ids alone."""
    made = zipf_samples(rows, _LENGTH)
    kept = Rows({name: made.fixed[name] for name in FIXED_COLUMNS}, {"input_ids": made.columns["ids"]})
    size = rows * _LENGTH
    return Content("ids", kept, [ColumnSpec("input_ids", "uint16", "list", "token ids")], size, size)


def corrupted(entry: dict[str, Any], rows: int) -> Content:
    """Return the examples of an objective."""
    words = vocabulary()
    objective = build_objective(entry, words)
    content = zipf_samples(rows, objective.content_length)
    examples, skips = objective.corrupt(content, np.zeros(rows, np.uint16), 1)
    kept = examples.take(np.flatnonzero(skips == 0))
    kept = Rows({name: kept.fixed[name] for name in FIXED_COLUMNS}, kept.columns)
    inputs = len(kept.columns["input_ids"].values)
    labels = len(kept.columns["target_ids"].values) if "target_ids" in kept.columns else inputs
    columns = list(feature_columns(objective.features, words.size))
    return Content(entry["name"], kept, columns, len(kept) * objective.content_length, 2 * inputs + labels)


def ours(content: Content, codec: Any, folder: Path) -> float:
    """Write a shard and return its bytes."""
    columns = [*fixed_columns(), *content.columns]
    return float(write_shard(folder / "shard", content.rows, columns, block_rows=_BLOCK_ROWS, codec=codec).bytes)


def theirs(python: str, sources: list[Path], folder: Path) -> dict[str, list[float]]:
    """Measure the bytes of each source in each format whose package is installed."""
    found = {}
    for name in records.WRITERS:
        command = [python, __file__, "--format", name, "--folder", str(folder), "--sources", *map(str, sources)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            print(f"{name}: skipped: {(result.stderr.strip().splitlines() or ['no message'])[-1]}")
            continue
        found[name] = json.loads(result.stdout.splitlines()[-1])
    return found


def measure(rows: int, peers_python: str, folder: Path) -> tuple[list[Content], dict[str, list[float]]]:
    """Measure every content; return the contents and their bytes in each form."""
    contents = [plain(rows), *(corrupted(entry, rows) for entry in _ENTRIES)]
    sizes = {f"ours, {codec}": [ours(content, codec, folder) for content in contents] for codec in ("none", "zstd")}
    sources = []
    for content in contents:
        source = folder / f"{content.name}.npz"
        records.save(source, {name: (column.values, column.offsets) for name, column in content.rows.columns.items()})
        sources.append(source)
    sizes |= theirs(peers_python, sources, folder)
    for bits in (32, 64):
        sizes[f"dense, {bits} bits"] = [content.dense * bits / 8 for content in contents]
    return contents, sizes


def main() -> None:
    """Write everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=3840)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter in whose environment peers are")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--format", choices=list(records.WRITERS), help="write sources in this process")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sources", type=Path, nargs="*")
    arguments = parser.parse_args()
    if arguments.format:
        records.main(arguments.format, arguments.sources, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        contents, sizes = measure(arguments.rows, arguments.peers_python, Path(temporary))
    print(f"| bytes/token | {' | '.join(content.name for content in contents)} |\n|---|{'---|' * len(contents)}")
    claims = []
    for name, row in sizes.items():
        cells = []
        for content, own, size in zip(contents, sizes["ours, none"], row, strict=True):
            pair = own / content.tokens, size / content.tokens
            cells.append(f"{pair[1]:.2f}")
            if name != "ours, none":
                claims.append(Claim(f"ours, none: {content.name}", "bytes/token", *pair, name, target=0.0))
        print(f"| {name} | {' | '.join(cells)} |")
    write_json(arguments.json, claims)


if __name__ == "__main__":
    main()
