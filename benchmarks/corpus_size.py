"""Memory and opens of each stage at corpus sizes a decade apart: neither may depend on the size of the corpus.

    python -m benchmarks.corpus_size [--megabytes 4 40] [--unit-megabytes 0.2] [--texts 1]
        [--dedup exact near] [--crawls SMALL LARGE] [--folder DIR] [--json FILE]

Give two sizes or more, such as `--megabytes 17 170 1700`; each is compared with the one before. The crawl is a WARC of
pages of Python's help topics under a menu, in which every third word is another one, so that no page is a near
duplicate of another. With `--texts 1` it is JSONL of the texts alone: about a sixth of the bytes, and nothing to
extract. With `--crawls` it is yours, in two sizes or more: files, globs or folders.

Each stage runs in a process of its own, one unit after another. Memory is the peak of that process since it started
(`VmHWM`), mapped files included. Its children are left out: the system counts them with the copy of the parent that a
fork is at first. Opens are the files that Python opens below input and output, by its audit hook, which sees the opens
of all but a few small files that Arrow opens by itself. All sizes have several units of the same size. The JSON also
holds what the largest took more than the one before, the rates that `benchmarks.capacity` reads.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from benchmarks.harness import ROOT, figure, parser, print_table, system_load, verdict, write_json

import numpy as np

from benchmarks.clean import prose, warc_record
from clozeline.pipeline.dedup.parts import SHUFFLES, Parts, count_ranges
from clozeline.pipeline.execution.plan import LEAST_BYTES
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import stages_of
from clozeline.pipeline.recipe import load_recipe

GROWTH = 1.1
"""Factor by which memory may grow with ten times the corpus."""
MOST_MEMORY = 1.5e9
MOST_OPENS = 100_000
"""Opens of a stage for 1 TB, at the default size of units."""
_RECIPE = """
corpus: size
clean: {extractor: {name: EXTRACTOR}, language: {name: py3langid, keep: [en]},
        filters: [gopher_quality, gopher_repetition]}
dedup: DEDUP
decontaminate: {against: ITEMS}
train_tokenizer: {name: byte_bpe, size: 4000, sample_bytes: 1000000}
encode: {}
balance: {alpha: 0.7, max_copies: 4}
group: {}
corrupt: [{name: masked_lm, max_length: 512}]
"""
_WORD = re.compile(r"([a-z]{4,})")
_ITEMS = 1000
"""Evaluation items that `decontaminate` looks up, and does not find."""
_CHILD = """
import json, os, sys
count = {"opens": 0}
roots = tuple(sys.argv[1].split(os.pathsep))
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and os.fsdecode(arguments[0]).startswith(roots):
        count["opens"] += 1
sys.addaudithook(hook)
from benchmarks.harness import cpu_seconds
from clozeline.pipeline.execution.recipe_command import run_stage
code = run_stage(sys.argv[2], sys.argv[3:])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
row = {"rss": int(peak) * 1024, "cpu_s": cpu_seconds()}
print("\\n" + json.dumps({**count, **row}))
raise SystemExit(code)
"""


def _iter_texts() -> Iterator[str]:
    """Yield texts of which no two are near duplicates."""
    words = np.array(sorted({word for text in topics.values() for word in _WORD.findall(text)}), object)
    # the parts of a text between its words, and at odd positions the words
    split = [np.array(_WORD.split(text), object) for text in prose(500, 7)]
    draw = np.random.default_rng(2)
    while True:
        parts = split[draw.integers(len(split))].copy()
        replaced = np.flatnonzero(draw.random(len(parts) // 2) < 1 / 3) * 2 + 1
        parts[replaced] = words[draw.integers(len(words), size=len(replaced))]
        yield "".join(parts)


def write_crawl(path: Path, size: int) -> None:
    """Write a WARC with at least `size` bytes of HTML."""
    texts, written = _iter_texts(), 0
    with path.open("wb") as file:
        while written < size:
            member, length = warc_record(next(texts))
            file.write(member)
            written += length


def write_texts(path: Path, size: int) -> None:
    """Write JSONL with at least `size` bytes of text."""
    texts, written = _iter_texts(), 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            file.write(json.dumps({"text": (text := next(texts))}) + "\n")
            written += len(text)


def write_recipe(folder: Path, extractor: str, dedup: Sequence[str]) -> Path:
    """Write a recipe with these types of duplicates, and evaluation items of 30 words, which no text holds."""
    draw, items = random.Random(3), folder / "items.txt"
    lines = (" ".join(f"item{draw.randrange(10**6)}" for _ in range(30)) for _ in range(_ITEMS))
    items.write_text("\n".join(lines) + "\n", encoding="utf-8")
    types = json.dumps({"exact": None, "near": None, **{name: {} for name in dedup}})
    recipe = folder / "recipe.yaml"
    filled = _RECIPE.replace("EXTRACTOR", extractor).replace("DEDUP", types).replace("ITEMS", str(items))
    recipe.write_text(filled, encoding="utf-8")
    return recipe


def measure(recipe: Path, crawl: str, unit_bytes: int) -> dict[str, dict[str, Any]]:
    """Return memory in bytes, opens, CPU seconds, bytes and units of each stage, for the files `input=crawl`."""
    folder, output = recipe.parent, recipe.parent / "out"
    plan = [f"plan.unit_bytes={unit_bytes}", f"plan.shard_bytes={unit_bytes}", "executor.workers=1"]
    rows = {}
    for stage in stages_of(load_recipe(recipe)):
        arguments = [stage, "--config", recipe, f"input={crawl}", f"output={output}", *plan]
        command = [sys.executable, "-c", _CHILD, str(folder), *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
        report = json.loads((output / stage / "report.json").read_text())
        left = sum(path.stat().st_size for path in (output / stage).rglob("*") if path.is_file())
        units = len(list((output / stage / "records").glob("*.json")))
        rows[stage] = {**json.loads(done.stdout.splitlines()[-1]), "counts": report["counts"], "units": units,
                       "written": report["bytes"], "left": left}  # fmt: skip
    return rows


def growth(small: dict[str, dict[str, Any]], large: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the larger corpus has and takes more, without the starts of the stages: rates for `capacity`."""

    def more(stage: str, *keys: str) -> Any:
        first, second = small[stage], large[stage]
        for key in keys:
            first, second = first[key], second[key]
        return second - first

    amounts = {"stored": "bytes_in", "text": "characters_in"}
    found: dict[str, Any] = {name: more("clean", "counts", count) for name, count in amounts.items()}
    stages = [stage for stage in large if stage != "train_tokenizer"]  # which reads a sample of the same size
    rates = {name: {stage: more(stage, name) for stage in stages} for name in ("cpu_s", "written", "left")}
    return {**found, "tokens": more("encode", "counts", "tokens"), **rates}


def compare(small: dict[str, dict[str, Any]], large: dict[str, dict[str, Any]]) -> list[Any]:
    """Return the rows of `--json`: memory and opens of each stage."""
    sizes = [f"{measured['clean']['counts']['bytes_in'] / 1e6:,.0f} MB" for measured in (small, large)]
    rows = []
    for stage, more in large.items():
        less = small[stage]
        holds = more["rss"] <= GROWTH * less["rss"] and more["rss"] <= MOST_MEMORY
        rows.append(figure(f"memory: {stage}, {sizes[1]} read", "MB", more["rss"] / 1e6, less["rss"] / 1e6, sizes[0],
                           GROWTH, holds=holds))  # fmt: skip
    for stage, more in large.items():
        less = small[stage]
        rows.append(figure(f"opens: {stage}, {more['units']} units", "opens", more["opens"], less["opens"],
                           f"{less['units']} units", None, holds=True, cpu_s=more["cpu_s"]))  # fmt: skip
    return rows


def opens(terabytes: int, unit_bytes: int) -> dict[str, int]:
    """Return how often each stage opens a file of rows, with shards as large as units."""
    units = -(-terabytes * 10**12 // unit_bytes)
    ranges = count_ranges(units)
    parts = Parts(Path(), Path(), units, ranges)
    shuffles = [parts.shuffle(kind) for kind in SHUFFLES if kind.startswith(("exact", "near"))]
    # Three passes read documents; signatures are written and read, documents and rejections written.
    dedup = sum(map(opens_of, shuffles)) + (3 + 2 + 2) * units
    return {"clean": 3 * units, "dedup": dedup, "encode": units + opens_of(Shuffle("runs", units, units)) + 2 * units}


def opens_of(shuffle: Shuffle) -> int:
    """Return how often a file of pieces is opened to be written or read, once by each destination."""
    bundled = shuffle.sources + shuffle.bundles if shuffle.bundles else 0
    return shuffle.sources + bundled + (shuffle.bundles or shuffle.sources) * shuffle.destinations


def foresee_opens() -> list[Any]:
    """Return the rows of the opens that a terabyte takes, by arithmetic."""
    return [
        figure(f"opens for 1 TB: {stage}, computed", "opens", count, MOST_OPENS, "limit", 1.0,
               holds=count <= MOST_OPENS)
        for stage, count in opens(1, LEAST_BYTES).items()
    ]  # fmt: skip


def main() -> int:
    """Measure all sizes; the exit code is 1 if memory grows or there are too many opens."""
    options = parser(
        __doc__, megabytes=([4.0, 40.0], "HTML, or text, of each crawl (default: %(default)s)"), texts=0,
        crawls=([""], "files to read instead: a small and a large crawl, or more, like `input=`"),
        unit_megabytes=(0.2, "compressed bytes of a unit (default: %(default)s)"), extractor="resiliparse",
        dedup=(["exact", "near"], "types of duplicates, also `lines` and `spans` (default: %(default)s)"),
        folder=(Path, "where to write; default: a temporary folder"),
    ).parse_args()  # fmt: skip
    sizes = options.crawls if any(options.crawls) else options.megabytes
    if len(sizes) < 2:
        sys.exit("expected two sizes or more, the smallest first, got 1")
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    measured = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
            folder = Path(temporary)
            crawl = folder / ("crawl.jsonl" if options.texts else "crawl.warc.gz")
            if size in options.crawls:
                crawl = Path(size).absolute()
            else:
                (write_texts if options.texts else write_crawl)(crawl, int(size * 1e6))
            recipe = write_recipe(folder, options.extractor, options.dedup)
            measured.append(measure(recipe, str(crawl), int(options.unit_megabytes * 1e6)))
    rows = [row for small, large in pairwise(measured) for row in compare(small, large)] + foresee_opens()
    cells = [(row["case"], f"{row['ours']:,.0f}", f"{row['peer']:,.0f}", row["peer_name"], f"{row['ratio']:.2f}",
              verdict(row["holds"])) for row in rows]  # fmt: skip
    print_table(("case", "ours", "compared with", "of", "ratio", "holds"), cells, system_load())
    write_json(options.json, [*rows, {"growth": growth(*measured[-2:])}])
    return int(not all(row["holds"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
