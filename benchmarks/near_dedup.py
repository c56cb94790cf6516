"""Near-duplicates of many documents: time, bytes and memory of the passes that find clusters.

    python -m benchmarks.near_dedup [--documents 1000000] [--json FILE]

There are no texts: signatures are drawn, and the time to draw them does not count. A quarter of the
documents belong to clusters, whose sizes follow a power law. A member keeps each minimum of its
cluster with a probability between 0.77 and 1, so that a fifth of all documents share a band key.
The other documents share none. Their rows are zeros, so that the file system stores holes for them.

Each pass runs in processes of its own, one by default (`--workers`). CPU seconds and the greatest
memory are those of the processes, bytes those that they write.
"""

import os
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from benchmarks.harness import parser, print_rows, system_load, temporary_folder, write_json

import numpy as np

from clozeline.pipeline.dedup.clusters import near_passes
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import Sketch, write_signatures
from clozeline.pipeline.dedup.parts import DedupCounts, Parts
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import (
    Output,
    UnitRecord,
    read_records,
    total_counts,
)
from clozeline.seeding import mix

SMALLEST = "--documents 2000 --parts 2 --ranges 4"
_GENERATED = 1 << 15  # signatures drawn at once


@dataclass(frozen=True)
class DrawnSignatures(Unit[DedupCounts]):
    """Draw signatures of a part in place of `NearSignatures`."""

    part: int
    parts: Parts
    sketch: Sketch
    documents: int
    share: float
    clusters: int

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        config = self.sketch
        size = len(range(self.part, self.documents, len(self.parts.names)))
        near = round(size * self.share)
        width = config.bands * config.rows
        rows = np.zeros(size, config.dtype)
        keys = np.empty((size, config.bands), np.uint64)
        draw = np.random.Generator(np.random.PCG64(self.part))
        rows["uid"][:near] = np.frombuffer(draw.bytes(16 * near), "S16")
        rows["priority"][:near] = draw.integers(200, 20_000, near)
        # small numbers of clusters are drawn most often
        clusters = (self.clusters * draw.random(near) ** 3).astype(np.uint64)
        functions = np.arange(width, dtype=np.uint64)

        for start in range(0, near, _GENERATED):
            some = clusters[start : start + _GENERATED, None]
            signatures = mix(some * np.uint64(width) + functions)
            similarity = draw.uniform(0.6, 1, (len(some), 1))
            own = draw.integers(0, 2**64, signatures.shape, np.uint64)
            # similarity s of both needs a share sqrt(s) of minima of the cluster in each
            changes = draw.random(signatures.shape, np.float32) > np.sqrt(similarity)
            signatures[changes] = own[changes]
            block = slice(start, start + len(some))
            rows["sketch"][block] = signatures.astype(np.uint16)
            keys[block] = config.band_keys(signatures)

        keys[near:] = draw.integers(0, 2**64, (size - near, config.bands), np.uint64)
        shuffle = self.parts.shuffle("near-keys")
        write_signatures(output, shuffle, self.parts.names[self.part], rows, keys)
        documents = next(name for name in output.files if name.endswith(".rows"))
        subprocess.run(["fallocate", "--dig-holes", output.folder / documents], check=False)
        return {}


@dataclass
class Figures:
    """What the units of a pass cost."""

    units: int = 0
    cpu_s: float = 0.0
    written: int = 0
    peak: int = 0


def run_pass(work: Pass[DedupCounts], folder: Path, workers: int) -> Figures:
    """Run the units of a pass in `workers` children."""
    figures = Figures(len(work.units))
    for first in range(workers):
        if not os.fork():
            code = 1
            try:
                for name in [*work.units][first::workers]:
                    output = Output(folder)
                    counts = work.units[name].run(UnitInputs(lambda stage: folder), output)
                    UnitRecord(work.name, name, {}, {}, "ok", counts, output.files).save(folder)
                code = 0
            finally:
                os._exit(code)

    for _ in range(workers):
        _, status, usage = os.wait4(-1, 0)
        if status:
            raise RuntimeError(f"a unit of {work.name} failed")
        figures.cpu_s += usage.ru_utime + usage.ru_stime
        figures.peak = max(figures.peak, usage.ru_maxrss << 10)
    for record in read_records(folder, work.name):
        figures.written += sum(output["bytes"] for output in record.outputs.values())
    return figures


def main() -> int:
    """Run the passes; the exit code is 1 if a process needs more than 3 GB."""
    options = parser(
        __doc__,
        documents=(1_000_000, "documents"),
        share=(0.25, "share of documents in clusters"),
        clusters=(0, "clusters; default: one for each two of these documents"),
        parts=(127, "parts"),
        ranges=(64, "hash ranges"),
        workers=(1, "processes"),
        folder=(tempfile.gettempdir(), "where a folder of intermediate files is made"),
    ).parse_args()
    print(f"{options.documents:,} documents, {system_load()}")
    near = NearConfig()
    rows = []

    with temporary_folder(options.folder) as folder:
        names = tuple(f"{part:06d}" for part in range(options.parts))
        parts = Parts(names, options.ranges)
        clusters = options.clusters or round(options.documents * options.share / 2)
        sketch = Sketch(near.ngram, near.bands, near.rows)
        drawn = {
            name: DrawnSignatures(part, parts, sketch, options.documents, options.share, clusters)
            for part, name in enumerate(names)
        }
        bundles = parts.shuffle("near-keys").passes("dedup")
        for work in (Pass[DedupCounts]("near-signatures", drawn), *bundles):
            run_pass(work, folder, options.workers)

        nothing = run_pass(Pass("nothing", {}), folder, 1)
        start = monotonic()
        for work in near_passes(parts, near):
            figures = run_pass(work, folder, options.workers)
            rows.append({"pass": work.name, **vars(figures)})
            print(work.name, figures, f"{monotonic() - start:.0f} s", flush=True)
        seconds = monotonic() - start
        counts = [total_counts(folder, row["pass"]).get("near", {}) for row in rows]
        total = defaultdict[str, int](int)
        for each in counts:
            for key, value in each.items():
                total[key] += value

    print_rows(
        [row | {"MB": row["written"] / 1e6, "peak MB": row["peak"] / 1e6} for row in rows],
        {
            "pass": "{pass}",
            "units": "{units}",
            "CPU s": "{cpu_s:.1f}",
            "MB written": "{MB:.1f}",
            "peak MB": "{peak MB:.0f}",
        },
    )
    peak = max(row["peak"] for row in rows)
    union = next(row["peak"] for row in rows if row["pass"] == "near-union")
    summary = {
        "documents": options.documents,
        "wall_s": seconds,
        "cpu_s": sum(row["cpu_s"] for row in rows),
        "written": sum(row["written"] for row in rows),
        "peak": peak,
        "cpu_s_per_million": 1e6 * sum(row["cpu_s"] for row in rows) / options.documents,
        "union_bytes_per_document": (union - nothing.peak) / options.documents,
        **total,
    }
    for key, value in summary.items():
        print(f"{key}: {value:,.1f}" if isinstance(value, float) else f"{key}: {value:,}")
    write_json(options.json, {"summary": summary, "passes": rows})
    return int(peak > 3e9)


if __name__ == "__main__":
    raise SystemExit(main())
