"""The stream against other loaders on the same samples.

    python -m benchmarks.loader [--samples 200000] [--rows packed] [--rounds 1]
        [--workers 0] [--peers-python PYTHON]
        [--texts FILE]

Samples of up to 512 16-bit ids are delivered as shuffled int64 batches of 32 rows, from a hot page
cache, each case in a fresh process. `--rows documents` takes the lengths, in words, of the texts
that come with Python, or of the column `text` of a JSONL file (`--texts`). Ours runs with its
defaults: lanes, every block's hash checked, order exact. The first two ids of a sample are its
index, so each case also counts what an epoch, and a resume in the middle of one, repeats or misses.
CPU time is judged first, because other work on the machine hardly changes it; samples per second
must hold as well.
"""

import json
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.harness import (
    parser,
    print_figures,
    print_rows,
    print_table,
    run_script,
    shorten,
    system_load,
    temporary_folder,
    verdict,
    write_json,
)

import numpy as np

from benchmarks.peers import loaders
from benchmarks.peers.clozeline import Ours, OursZstd
from benchmarks.peers.measure import RESUMED_AT, measure
from benchmarks.peers.targets import GUARD_US, MAIN, ZSTD, ratios, requirements
from benchmarks.peers.workload import (
    BATCH,
    Loader,
    checksums,
    document_lengths,
    draw_packed_lengths,
    token_rows,
)

SMALLEST = "--samples 2048"
CASES: dict[str, type[Loader]] = {
    MAIN: Ours,
    ZSTD: OursZstd,
    "numpy memmap, whole batch": loaders.Memmap,
    "memmap + DataLoader": loaders.Indexed,
    "litdata": loaders.LitData,
    "datasets, map-style": loaders.DatasetsMap,
    "datasets, streaming + DataLoader": loaders.DatasetsStreaming,
    "webdataset, per-sample tar": loaders.WebDataset,
}
Figures = Mapping[str, float]
_COUNTS: Final = ("delivered", "repeated", "missing")
_COLUMNS: Final = {
    "loader": "{loader}",
    "CPU us/sample, best window (mean)": "{least_cpu:.2f} ({cpu:.2f})",
    "samples/s, best window (mean)": "{best_rate:,.0f} ({rate:,.0f})",
    "import s": "{import:.2f}",
    "first batch s": "{first:.3f}",
    "resume s at 1, 50, 99 %": ", ".join(f"{{resume_{at}:.3f}}" for at in RESUMED_AT),
    "epoch: delivered / repeated / missing": " / ".join(f"{{epoch_{n}:.0f}}" for n in _COUNTS),
    "resumed at 50 %: the same": " / ".join(f"{{resumed_{n}:.0f}}" for n in _COUNTS),
    "resumed stream identical": "{same}",
    "state bytes": "{state_bytes:.0f}",
    "RSS MiB (beyond imports)": "{rss:.0f} ({rss_beyond_imports:.0f})",
    "bytes/token": "{bytes_per_token:.2f}",
}
_LARGEST = ("best_rate", "rate", "epoch_", "resumed_", "elastic_")
"""Figures whose largest value over rounds counts: the best rate, but the most repeated samples."""


def write_samples(root: Path, samples: int, *, documents: bool, texts: Path | None = None) -> None:
    """Write what every case gets: ids padded to 512, their lengths, and their checksums."""
    from benchmarks.texts import natural_texts

    if documents:
        natural = natural_texts(texts)
        lengths = document_lengths(samples, natural)
        print(
            f"{len(natural):,} texts; {np.mean(lengths):.0f} ids per sample on average, "
            f"{np.median(lengths):.0f} median"
        )
    else:
        lengths = draw_packed_lengths(samples)

    ids = token_rows(lengths)
    np.save(root / "ids.npy", ids)
    np.save(root / "lengths.npy", lengths)
    np.save(root / "checksums.npy", checksums(ids))


def run_case(name: str, root: Path, workers: int) -> dict[str, float]:
    """Write a case's samples if they do not exist yet, otherwise measure it."""
    case = CASES[name]
    folder = _folder(root, name)
    if (folder / "written").exists():
        return measure(case, folder, np.load(root / "checksums.npy"), workers)
    case.load()
    folder.mkdir()
    case.write(folder, np.load(root / "ids.npy", mmap_mode="r"), np.load(root / "lengths.npy"))
    (folder / "written").touch()
    return {}


def in_fresh_process(
    python: str, name: str, root: Path, workers: int = 0
) -> dict[str, float] | None:
    """Run a case in a process of its own; None: its package is not installed, or it failed."""
    options = ("--case", name, "--folder", root, "--workers", workers)
    try:
        figures: dict[str, float] = run_script(__file__, *options, python=python)
    except RuntimeError as error:
        print(f"{name}{f' with {workers} worker processes' if workers else ''}: skipped: {error}")
        return None
    return figures


def compare(
    root: Path, peers_python: str, rounds: int, workers: int
) -> dict[str, dict[str, float]]:
    """Measure every installed case in several rounds.

    Of speed the best round counts, of missing and repeated samples the worst.
    """
    pythons = {
        name: sys.executable if issubclass(case, Ours) else peers_python
        for name, case in CASES.items()
    }
    installed = [
        name
        for name in CASES
        if (_folder(root, name) / "written").exists()
        or in_fresh_process(pythons[name], name, root) is not None
    ]

    figures_by_case: dict[str, dict[str, float]] = {}

    for _, name in product(range(rounds), installed):
        facts = in_fresh_process(pythons[name], name, root)
        if facts is None:
            continue
        if workers and CASES[name].has_workers:
            parallel = in_fresh_process(pythons[name], name, root, workers)
            facts |= {} if parallel is None else {"rate_with_workers": parallel["best_rate"]}
        for key, value in figures_by_case.get(name, {}).items():
            facts[key] = (max if key.startswith(_LARGEST) else min)(value, facts.get(key, value))
        figures_by_case[name] = facts

    for name, facts in figures_by_case.items():
        size = sum(path.stat().st_size for path in _folder(root, name).rglob("*") if path.is_file())
        facts["bytes_per_token"] = size / np.load(root / "lengths.npy").sum()

    return figures_by_case


def _folder(root: Path, name: str) -> Path:
    return root / f"{list(CASES).index(name)}"


def show(figures_by_case: Mapping[str, Figures], workers: int) -> None:
    """Print the figures, the comparison with each peer, and the limits."""
    columns = dict(_COLUMNS)
    if workers:
        columns[f"samples/s, best window, {workers} worker processes"] = "{with_workers}"
    lines = [
        {
            **figures,
            "loader": name,
            "same": verdict(bool(figures["identical"])),
            "with_workers": shorten(figures.get("rate_with_workers")),
        }
        for name, figures in figures_by_case.items()
    ]
    print_rows(lines, columns)
    rows = []

    for cpu, wall, mean_cpu, mean_wall in ratios(figures_by_case):
        target = (
            f"{cpu.target:.3g}"
            if cpu.target == wall.target
            else f"{cpu.target:.2f}, {wall.target:.2f}"
        )
        times = (f"{cpu.ratio:.3g} ({mean_cpu:.3g})", f"{wall.ratio:.3g} ({mean_wall:.3g})")
        rows.append((cpu.case, cpu.peer_name, *times, target, verdict(cpu.holds and wall.holds)))

    less = "times less CPU, best window (mean)"
    more = "times the samples/s, best window (mean)"
    print_table(("case", "against", less, more, "target", "holds"), rows)
    print_figures([claim.row() for claim in requirements(figures_by_case)])


def main() -> int:
    """Measure every case, print the tables.

    The exit code is 1 if our CPU time is above its limit.
    """
    made = parser(
        __doc__,
        samples=(200_000, f"a multiple of {BATCH}"),
        rounds=(1, "repeat everything and keep the best of each figure"),
        workers=(0, "measure peers also with this many worker processes"),
        peers_python=(sys.executable, "interpreter of the environment with the peers"),
        texts=(Path, "JSONL file whose texts give the lengths of `--rows documents`"),
        folder=(Path, "folder for the samples; default: a temporary one"),
    )

    made.add_argument(
        "--rows", choices=("packed", "documents"), default="packed", help="lengths of the samples"
    )
    made.add_argument(
        "--case", choices=list(CASES), help="write or measure one case in this process"
    )
    options = made.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case, options.folder, options.workers)))
        return 0

    with temporary_folder() as temporary:
        root = (options.folder or temporary) / options.rows
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "checksums.npy").exists():
            samples = options.samples // BATCH * BATCH
            write_samples(root, samples, documents=options.rows == "documents", texts=options.texts)
        figures_by_case = compare(root, options.peers_python, options.rounds, options.workers)

    show(figures_by_case, options.workers)
    print(f"\n{system_load()}")
    pairs = [claim for cpu, wall, _, _ in ratios(figures_by_case) for claim in (cpu, wall)]
    write_json(options.json, [claim.row() for claim in (*pairs, *requirements(figures_by_case))])
    return int(figures_by_case[MAIN]["least_cpu"] > GUARD_US)


if __name__ == "__main__":
    sys.exit(main())
