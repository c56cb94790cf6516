"""Bytes on disk per token of text: our shards and the formats of other libraries, for ids and for two objectives.

    python -m benchmarks.storage [--rows 3840] [--peers-python PYTHON] [--json FILE]

Samples are Zipf-distributed ids of a vocabulary of 32,000; real text is a little more regular. The others store the
same training features as 16-bit integers, without the columns by which ours trace a row to its document. The last forms
are what scripts write that mask once and save: input ids, labels and attention mask, as 32-bit or 64-bit integers
(labels as long as the input for masked LM, as long as the target for span corruption).
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Claim, parser, print_table, run_script, write_json

import numpy as np

from benchmarks.corruption import samples, vocabulary
from benchmarks.peers import records
from benchmarks.peers.clozeline import BLOCK_ROWS, origins
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, Rows
from clozeline.pipeline.shards import ColumnSpec, base_columns, feature_columns, write_shard

_LENGTH = 512
_ENTRIES: tuple[dict[str, Any], ...] = (
    {"name": "masked_lm", "max_length": _LENGTH},
    {"name": "span_corruption", "input_length": _LENGTH},
)


@dataclass(frozen=True)
class Content:
    """Rows to be stored, their list columns, tokens of text, and integers of dense inputs and labels."""

    name: str
    rows: Rows
    columns: list[ColumnSpec]
    tokens: int
    dense: int


def zipf_samples(rows: int, length: int) -> Rows:
    """Return the samples of the benchmark of corruption with Zipf-distributed ids."""
    words = vocabulary()
    made = samples(rows, length, words)
    first = int(np.flatnonzero(~words.special)[0])
    uniform = np.random.Philox(1).random_raw(rows * length) / 2.0**64
    ids = first + np.minimum(words.size - first - 1, np.exp(uniform * np.log(words.size - first))).astype(np.int64)
    text = Ragged.from_matrix(ids.reshape(rows, length).astype(words.id_dtype))
    return Rows(origins(rows, 1), {**made.columns, "ids": text})


def plain_content(rows: int) -> Content:
    """Return ids alone."""
    made = zipf_samples(rows, _LENGTH)
    kept = Rows({name: made.fixed[name] for name in FIXED_COLUMNS}, {"input_ids": made.columns["ids"]})
    size = rows * _LENGTH
    return Content("ids", kept, [ColumnSpec("input_ids", "uint16", "list", "token ids")], size, size)


def content_of_objective(entry: dict[str, Any], rows: int) -> Content:
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


def write_ours(content: Content, codec: Any, folder: Path) -> float:
    columns = [*base_columns(), *content.columns]
    return float(write_shard(folder / "shard", content.rows, columns, block_rows=BLOCK_ROWS, codec=codec).bytes)


def measure(rows: int, peers_python: str, folder: Path) -> tuple[list[Content], dict[str, list[float]]]:
    """Return the contents, and their bytes in each format; formats without their package are skipped."""
    contents = [plain_content(rows), *(content_of_objective(entry, rows) for entry in _ENTRIES)]
    sizes = {
        f"ours, {codec}": [write_ours(content, codec, folder) for content in contents] for codec in ("none", "zstd")
    }
    sources = [folder / f"{content.name}.npz" for content in contents]
    for source, content in zip(sources, contents, strict=True):
        records.save(source, {name: (column.values, column.offsets) for name, column in content.rows.columns.items()})
    for name in records.WRITERS:
        options = ("--format", name, "--folder", folder, "--sources", *sources)
        try:
            sizes[name] = run_script(__file__, *options, python=peers_python)
        except RuntimeError as error:
            print(f"{name}: skipped: {error}")
    for bits in (32, 64):
        sizes[f"dense, {bits} bits"] = [content.dense * bits / 8 for content in contents]
    return contents, sizes


def main() -> None:
    peers = (sys.executable, "interpreter of the environment with the peers")
    made = parser(__doc__, rows=3840, peers_python=peers, folder=Path)
    made.add_argument("--format", choices=list(records.WRITERS), help="write the sources in this process")
    made.add_argument("--sources", type=Path, nargs="*")
    options = made.parse_args()
    if options.format:
        print(json.dumps(records.write_all(options.format, options.sources, options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        contents, sizes = measure(options.rows, options.peers_python, Path(temporary))
    rows, claims = [], []
    for name, row in sizes.items():
        shares = [size / content.tokens for content, size in zip(contents, row, strict=True)]
        rows.append((name, *(f"{share:.2f}" for share in shares)))
        for content, own, share in zip(contents, sizes["ours, none"], shares, strict=True):
            if name != "ours, none":
                own_share = own / content.tokens
                claims.append(Claim(f"ours, none: {content.name}", "bytes/token", own_share, share, name, target=0.0))
    print_table(("bytes/token", *(content.name for content in contents)), rows)
    write_json(options.json, [claim.row() for claim in claims])


if __name__ == "__main__":
    main()
