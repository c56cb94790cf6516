"""Measure the CPU time of each stage and of complete chains from crawl to shards.

Say what that means for a cluster.

    python -m benchmarks.stages [--input FILES] [--crawl FILES] [--terabytes 10] [--json FILE]

The stages run one after another in one process, one unit at a time, so the CPU time of a stage is
that of one core. The pages of their reports are not drawn. Texts are the given files, filtered, or
the help topics, docstrings and modules of Python, which the filters would reject. The first row
counts the bytes of the files as they are stored, such as gzip members of a WARC; the others count
text. The last column is arithmetic: hours for that many terabytes, divided among the cores.

The chains read WARCs, the given crawl or generated pages, with each extractor. Their figure is MB
of files, as they are stored, per CPU second, the start of every stage included.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import cpu_seconds, figure, parser, print_table, system_load, write_json

from benchmarks.texts import natural_texts, write_crawl
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.execution.stages import stages_of
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.recipe import load_recipe

_RECIPE = """
corpus: stages
heldout: {fraction: 0}
clean: {language: {name: py3langid}, filters: FILTERS}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 16000, sample_bytes: 4000000}
encode: {}
group: {}
corrupt: [{name: masked_lm, max_length: 512}]
"""
_FILES = "clean, of files"
_FILTERS = "[gopher_quality, gopher_repetition]"


def stage_seconds(stage: str, recipe: Path, source: str, output: Path) -> float:
    """Run a stage in this process, and return its CPU seconds.

    They include its children, but not its report page.
    """
    start = cpu_seconds()
    words = [f"input={source}", f"output={output}", "executor.workers=1"]
    run_recipe(load_recipe(recipe, words), stage, Progress(), [])
    return cpu_seconds() - start


def measure(source: str, folder: Path, filters: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return CPU seconds and megabytes read of each stage.

    Megabytes are of its files, and of text as UTF-8.
    """
    recipe = folder / "recipe.yaml"
    output = folder / "out"
    recipe.write_text(_RECIPE.replace("FILTERS", filters))
    seconds = {
        stage: stage_seconds(stage, recipe, source, output)
        for stage in stages_of(load_recipe(recipe))
    }
    records = [json.loads(path.read_text()) for path in (output / "clean/records").glob("*.json")]
    parts = sorted((output / "clean/documents").glob("*.arrow"))
    kept = (
        sum(len(document.text.encode()) for part in parts for document in read_documents(part))
        / 1e6
    )
    stored = sum(record["counts"]["bytes_in"] for record in records) / 1e6
    return {_FILES: seconds["clean"], **seconds}, {_FILES: stored, **dict.fromkeys(seconds, kept)}


_CHAIN = """
corpus: chain
heldout: {fraction: 0}
clean: {extractor: {name: EXTRACTOR}, language: {name: py3langid, keep: [en]},
        filters: [gopher_quality, c4_quality, gopher_repetition]}
dedup: {exact: {key: text}, near: {ngram: 5, bands: 14, rows: 8, verify: 0.7}}
train_tokenizer: {name: byte_bpe, size: 2000}
encode: {}
group: {}
corrupt: [{name: masked_lm, max_length: 512}]
"""


def measure_chain(extractor: str, crawl: str, folder: Path) -> tuple[dict[str, float], float]:
    """Return CPU seconds of each stage, and megabytes of WARC files that the first one read.

    Megabytes are as stored.
    """
    recipe = folder / f"{extractor}.yaml"
    output = folder / extractor
    recipe.write_text(_CHAIN.replace("EXTRACTOR", extractor))
    seconds = {
        stage: stage_seconds(stage, recipe, crawl, output)
        for stage in stages_of(load_recipe(recipe))
    }
    counts = [
        json.loads(path.read_text())["counts"] for path in (output / "clean/records").glob("*.json")
    ]
    return seconds, sum(count["bytes_in"] for count in counts) / 1e6


def chain_rows(crawl: str, folder: Path) -> list[dict[str, Any]]:
    """Return a row per extractor, with its seconds per stage."""
    rows = []

    for extractor in ("resiliparse", "trafilatura"):
        seconds, size = measure_chain(extractor, crawl, folder)
        speed = size / sum(seconds.values())
        rows.append(
            figure(
                f"WARC to shards: {extractor}",
                "MB/s",
                speed,
                None,
                "",
                None,
                holds=True,
                cpu_s=seconds,
            )
        )

    return rows


def stage_rows(seconds: dict[str, float], megabytes: dict[str, float]) -> list[dict[str, Any]]:
    """Return a row of `--json` per stage."""
    return [
        figure(
            f"stage: {stage}",
            "MB/s",
            megabytes[stage] / spent,
            None,
            "",
            None,
            holds=True,
            cpu_s=spent,
            megabytes=megabytes[stage],
        )
        for stage, spent in seconds.items()
    ]


def print_stages(rows: Sequence[dict[str, Any]], terabytes: float, cores: int, title: str) -> None:
    """Print the stages with the hours of a cluster with that many cores."""
    cells = []

    for row in rows:
        hours = f"{terabytes * 1e6 / row['ours'] / 3600 / cores:.2f}"
        hours = "one core, once" if "train_tokenizer" in row["case"] else hours
        numbers = (f"{row['megabytes']:.1f}", f"{row['cpu_s']:.1f}", f"{row['ours']:.2f}")
        cells.append((row["case"].removeprefix("stage: "), *numbers, hours))

    head = (
        "stage",
        "MB read",
        "CPU s",
        "MB / CPU s",
        f"{terabytes:g} TB on {cores:,} cores, hours",
    )

    print_table(head, cells, title)


def main() -> None:
    """Measure stages and chains."""
    options = parser(
        __doc__,
        input=(str, "files of text, like `input=` of a recipe"),
        crawl=(str, "WARCs for the chains, like `input=`; default: generated pages"),
        html=(20.0, "MB of HTML to generate (default: %(default)s)"),
        terabytes=(10.0, "terabytes of text, for the last column (default: %(default)s)"),
        nodes=32,
        cores=(64, "cores of a node (default: %(default)s)"),
    ).parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        start = time.monotonic()
        source = options.input or str(folder / "texts.jsonl")
        if not options.input:
            lines = (json.dumps({"text": text}) for text in natural_texts())
            Path(source).write_text("\n".join(lines) + "\n", encoding="utf-8")
        stages = stage_rows(*measure(source, folder, _FILTERS if options.input else "[]"))
        title = f"{time.monotonic() - start:.0f} s, {system_load()}"
        crawl = options.crawl or str(folder / "crawl.warc.gz")
        if not options.crawl:
            write_crawl(Path(crawl), int(options.html * 1e6))
        chains = chain_rows(crawl, folder)

    print_stages(stages, options.terabytes, options.nodes * options.cores, title)
    steps = [
        (row["case"], f"{row['ours']:.1f}", *(f"{spent:.1f}" for spent in row["cpu_s"].values()))
        for row in chains
    ]
    print_table(
        ("CPU seconds", "MB of WARC files / CPU s", *chains[0]["cpu_s"]), steps, system_load()
    )
    write_json(options.json, [*stages, *chains])


if __name__ == "__main__":
    main()
