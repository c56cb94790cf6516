"""CPU time of the pipeline when its input is cut into more files, and the number of opens for a terabyte and more.

    python -m benchmarks.small_files [--files 100 1000 10000] [--megabytes 2] [--json FILE]

Each run has the same text, once as one JSONL file, then as that many text files. `clean`, `dedup` and `encode` run one
after another in this process, up to the token set. Opens are computed from the sizes of units and shards.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.harness import cpu_seconds, parser, print_table, write_json

from benchmarks.encode import documents
from clozeline.pipeline.dedup.component_passes import Levels
from clozeline.pipeline.dedup.parts import EXCHANGES, Parts, count_ranges
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.plan import LEAST_BYTES, MOST_UNITS
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.recipe import load_recipe

_RECIPE = """
corpus: small_files
heldout: {fraction: 0}
clean: {language: null, filters: []}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 1000, sample_bytes: 1000000}
encode: {}
"""
_STAGES = ("clean", "dedup", "train_tokenizer", "encode")


def cut(text: str, files: int) -> list[str]:
    size = -(-len(text) // files)
    return [f"{text[number * size : (number + 1) * size]} {number}" for number in range(files)]


def write(folder: Path, texts: list[str], *, single_file: bool) -> str:
    """Write the texts as one JSONL file, or as a text file each, and return the input."""
    folder.mkdir()
    if single_file:
        lines = [json.dumps({"text": text}) for text in texts]
        (folder / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        for number, text in enumerate(texts):
            (folder / f"{number:06d}.txt").write_text(text, encoding="utf-8")
    return str(folder)


def stage_seconds(stage: str, recipe: Path, source: str, output: Path) -> float:
    """Run a stage in this process and return its CPU seconds, with those of its children, without its page."""
    start = cpu_seconds()
    words = [f"input={source}", f"output={output}", "executor.workers=1"]
    run_recipe(load_recipe(recipe, words), stage, Progress(), [])
    return cpu_seconds() - start


def measure(source: str, folder: Path) -> tuple[float, int]:
    """Return the CPU seconds of all stages, and the number of files that they wrote."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE)
    seconds = sum(stage_seconds(stage, recipe, source, folder / "out") for stage in _STAGES)
    return seconds, sum(path.is_file() for path in (folder / "out").rglob("*"))


def opens(terabytes: int, unit_bytes: int) -> dict[str, int]:
    """Return how often each stage opens a file of rows, with shards as large as units."""
    units = -(-terabytes * 10**12 // unit_bytes)
    ranges = count_ranges(units)
    parts = Parts(Path(), Path(), units, ranges)
    exchanges = [parts.exchange(kind) for kind in EXCHANGES if kind.startswith(("exact", "near"))]
    exchanges += Levels(parts).exchanges()
    # Three passes read documents; signatures are written and read, documents and rejections written.
    dedup = sum(exchange.opens for exchange in exchanges) + (3 + 2 + 2) * units
    return {"clean": 3 * units, "dedup": dedup, "encode": units + Exchange("runs", units, units).opens + 2 * units}


def main() -> None:
    options = parser(__doc__, files=[100, 1000, 10_000], megabytes=2.0).parse_args()
    text = "\n".join(document.text for document in documents(options.megabytes))
    rows = []
    for files in options.files:
        for single_file in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                source = write(Path(folder) / "in", cut(text, files), single_file=single_file)
                seconds, written = measure(source, Path(folder))
            count = 1 if single_file else files
            rows.append({"documents": files, "files": count, "cpu_s": seconds, "written": written})
    cells = [(f"{r['documents']:,}", f"{r['files']:,}", f"{r['cpu_s']:.1f}", f"{r['written']:,}") for r in rows]
    head = ("documents", "input files", "CPU s", "files written")
    print_table(head, cells, f"{len(text) / 1e6:.1f} MB of text")
    cells = []
    defaults = [(terabytes, max(LEAST_BYTES, terabytes * 10**12 // MOST_UNITS)) for terabytes in (1, 10, 100)]
    for terabytes, unit_bytes in (*defaults, (100, 1 << 28)):
        counts = (-(-terabytes * 10**12 // unit_bytes), *opens(terabytes, unit_bytes).values())
        cells.append((f"{terabytes} TB", f"{unit_bytes >> 20:,} MiB", *(f"{count:,}" for count in counts)))
    print_table(("input", "unit and shard", "units", *opens(1, 1 << 28)), cells, "opens of files of rows")
    write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
