"""Measure the CPU time of each stage and of complete chains from crawl to shards.

Say what that means for a cluster.

    python -m benchmarks.stages [--input FILES] [--crawl FILES] [--terabytes 10] [--json FILE]

The stages run one after another in one process, one unit at a time, so the CPU time of a stage is
that of one core. The pages of their reports are not drawn. Texts are the given files, filtered, or
the help topics, docstrings and modules of Python, which the filters would reject.

A few documents run first, to import and load everything. Then the sample runs, and a quarter of it.
What does not grow with the sample, such as manifests and the items of an evaluation, is a column of
its own. Megabytes are what a stage reads: `clean` its files as they are stored, such as gzip
members of a WARC, `train_tokenizer` its sample, and each other stage the text, as UTF-8, of the
documents that the stage before it left.

The last columns are arithmetic: a corpus of that many terabytes of files, of which each stage reads
the share that it read here. A further table has the passes of near-dedup that find clusters, from a
run of `benchmarks.near_dedup`.

The chains read WARCs, the given crawl or generated pages, with each extractor. Their figure is MB
of files, as they are stored, per CPU second, the start of every stage included.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import (
    cpu_seconds,
    figure,
    parser,
    print_table,
    system_load,
    temporary_folder,
    write_json,
)

from benchmarks.stage_costs import (
    Measurement,
    StageCost,
    count_units,
    estimate,
    estimate_near,
    fit_costs,
    keep_fastest,
)
from benchmarks.texts import natural_texts, write_crawl
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.execution.stages import document_stages, stages_of
from clozeline.pipeline.execution.unit_record import total_counts
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.recipe import Recipe, load_recipe

SMALLEST = "--html .2"
_RECIPE = """
corpus: stages
heldout: {fraction: 0}
clean: {language: {name: py3langid}, filters: FILTERS}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 16000}
encode: {}
group: {}
corrupt: [{name: masked_lm, max_length: 512}]
"""
_FILTERS = "[gopher_quality, gopher_repetition]"
_WARMING_DOCUMENTS: Final = 200
_PART: Final = 4
"""The smaller sample has one of so many documents."""
_LEAST_MB: Final = 16.0
"""Text from which on four times as much gave the same CPU hours of a corpus."""


def stage_seconds(stage: str, recipe: Path, words: Sequence[str]) -> float:
    """Run a stage in this process, and return its CPU seconds.

    They include its children, but not its report page.
    """
    start = cpu_seconds()
    run_recipe(load_recipe(recipe, words), stage, Progress(), [])
    return cpu_seconds() - start


def megabytes_read(recipe: Recipe, stage: str) -> float:
    """Return the megabytes of files, or of text as UTF-8, that a stage has read."""
    counts = total_counts(recipe.folder(stage), "main")
    if stage == "clean":
        size = counts["bytes_in"]
    elif stage == "train_tokenizer":
        size = total_counts(recipe.folder(stage), "sample")["sample"]["bytes"]
    else:
        stages = all_stages()
        before = stages[: stages.index(stage)]
        source = [name for name in document_stages() if name in before and recipe.has(name)][-1]
        folder = recipe.folder(source) / "documents"
        size = sum(
            len(document.text.encode()) + len((document.target_text or "").encode())
            for part in folder.glob("*.arrow")
            for document in read_documents(part)
        )
    return size / 1e6


def measure(recipe: Path, words: Sequence[str]) -> dict[str, Measurement]:
    """Run the stages, and return what each one read and its CPU seconds."""
    loaded = load_recipe(recipe, words)
    seconds = {stage: stage_seconds(stage, recipe, words) for stage in stages_of(loaded)}
    return {
        stage: Measurement(megabytes_read(loaded, stage), spent) for stage, spent in seconds.items()
    }


def measure_costs(
    source: str, folder: Path, filters: str, rounds: int
) -> tuple[list[StageCost], float]:
    """Return the cost of each stage, from the sample and a quarter of its documents.

    The second result is the number of documents that `clean` leaves of a megabyte of files.

    Both run in turns; the fastest time of each stage counts.
    """
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE.replace("FILTERS", filters))
    words = [f"input={source}", "executor.workers=1"]
    whole = dict[str, Measurement]()
    part = dict[str, Measurement]()
    measure(recipe, [*words, f"output={folder / 'warm'}", f"limit={_WARMING_DOCUMENTS}"])

    for number in range(rounds):
        output = f"output={folder / f'whole-{number}'}"
        whole = keep_fastest(whole, measure(recipe, [*words, output]))
        loaded = load_recipe(recipe, [output])
        documents = total_counts(loaded.folder("clean"), "main")["documents_in"]
        output = f"output={folder / f'part-{number}'}"
        limit = f"limit={max(1, documents // _PART)}"
        part = keep_fastest(part, measure(recipe, [*words, output, limit]))

    # the counts of `clean` are of complete files, also where it stops early
    share = part["dedup"].megabytes / whole["dedup"].megabytes
    part["clean"] = part["clean"]._replace(megabytes=share * whole["clean"].megabytes)
    costs = fit_costs(part, whole)

    # what the stages cannot exceed
    trained = loaded.config_of("train_tokenizer").algorithm().type
    costs["train_tokenizer"] = replace(
        costs["train_tokenizer"], most_megabytes=trained.SAMPLE_BYTES / 1e6
    )
    deduped = total_counts(loaded.folder("dedup"), "main")["documents_in"]
    return list(costs.values()), deduped / whole["clean"].megabytes


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
    words = [f"input={crawl}", f"output={output}", "executor.workers=1"]
    seconds = {
        stage: stage_seconds(stage, recipe, words) for stage in stages_of(load_recipe(recipe))
    }
    return seconds, megabytes_read(load_recipe(recipe, words), "clean")


def chain_rows(crawl: str, folder: Path) -> list[dict[str, Any]]:
    """Return a row per extractor, with its seconds per stage."""
    rows = []

    for extractor in ("resiliparse", "trafilatura"):
        seconds, size = measure_chain(extractor, crawl, folder)
        speed = size / sum(seconds.values())
        rows.append(figure(f"WARC to shards: {extractor}", "MB/s", speed, cpu_s=seconds))

    return rows


def stage_rows(costs: Sequence[StageCost]) -> list[dict[str, Any]]:
    """Return a row of `--json` per stage; its speed is that of a large corpus."""
    return [
        figure(
            f"stage: {cost.name}",
            "MB/s",
            1 / cost.per_megabyte,
            cpu_s=cost.sample.seconds,
            megabytes=cost.sample.megabytes,
            fixed_s=cost.fixed,
        )
        for cost in costs
    ]


def print_stages(costs: Sequence[StageCost], terabytes: float, cores: int, title: str) -> None:
    """Print the stages with the hours of a cluster with that many cores."""
    estimates = estimate(costs, terabytes, cores)
    cells = []

    for cost, expected in zip(costs, estimates, strict=True):
        name = f"{cost.name}, of files" if cost.name == "clean" else cost.name
        megabytes, seconds = cost.sample
        numbers = (f"{megabytes:.1f}", f"{seconds:.1f}", f"{cost.fixed:.1f}")
        speed = f"{1 / cost.per_megabyte:.2f}"
        hours = (f"{expected.cpu_hours:,.2f}", f"{expected.hours:,.2f}")
        cells.append((name, *numbers, speed, f"{expected.terabytes:.2g}", *hours))

    cpu_hours, hours = (
        sum(getattr(each, name) for each in estimates) for name in ("cpu_hours", "hours")
    )
    cells.append(("all", *("",) * 5, f"{cpu_hours:,.2f}", f"{hours:,.2f}"))
    head = (
        "stage",
        "MB of text read",
        "CPU s",
        "at any size",
        "MB / CPU s",
        f"TB read of {terabytes:g} TB",
        "CPU hours",
        f"hours, {cores:,} cores",
    )
    print_table(head, cells, title)


def print_near(terabytes: float, documents: float) -> None:
    """Print what the clusters take, for a number of documents in a megabyte of files."""
    near = estimate_near(documents * terabytes * 1e6, count_units(terabytes))
    head = (
        "documents",
        "band keys",
        "ranges",
        "GB between passes",
        "CPU hours",
        "GB of memory, a unit",
        "the union",
    )
    cells = (
        f"{near.documents:.2g}",
        f"{near.keys:.2g}",
        near.ranges,
        f"{near.written / 1e9:,.1f}",
        f"{near.cpu_hours:.2f}",
        f"{near.memory / 1e9:.2f}",
        f"{near.union / 1e9:.2f}",
    )
    title = (
        f"clusters of near-duplicates, {terabytes:g} TB, if a fifth of the documents share a key"
    )
    print_table(head, [cells], title)


def main() -> None:
    """Measure stages and chains."""
    options = parser(
        __doc__,
        input=(str, "files of text, like `input=` of a recipe"),
        crawl=(str, "WARCs for the chains, like `input=`; default: generated pages"),
        html=(20.0, "MB of HTML to generate (default: %(default)s)"),
        terabytes=(10.0, "terabytes of files, for the last columns (default: %(default)s)"),
        rounds=(1, "runs of each sample, of which the fastest counts (default: %(default)s)"),
        nodes=32,
        cores=(64, "cores of a node (default: %(default)s)"),
    ).parse_args()

    with temporary_folder() as folder:
        start = time.monotonic()
        source = options.input or str(folder / "texts.jsonl")
        if not options.input:
            lines = (json.dumps({"text": text}) for text in natural_texts())
            Path(source).write_text("\n".join(lines) + "\n", encoding="utf-8")
        costs, documents = measure_costs(
            source, folder, _FILTERS if options.input else "[]", options.rounds
        )
        title = f"{time.monotonic() - start:.0f} s, {system_load()}"
        crawl = options.crawl or str(folder / "crawl.warc.gz")
        if not options.crawl:
            write_crawl(Path(crawl), int(options.html * 1e6))
        chains = chain_rows(crawl, folder)

    print_stages(costs, options.terabytes, options.nodes * options.cores, title)
    text = next(cost.sample.megabytes for cost in costs if cost.name == "dedup")
    if text < _LEAST_MB:
        print(
            f"the sample is small: its documents have {text:.1f} MB of text, and the hours of a "
            f"corpus follow from {_LEAST_MB:.0f} MB on; give more files"
        )
    print_near(options.terabytes, documents)
    steps = [
        (row["case"], f"{row['ours']:.1f}", *(f"{spent:.1f}" for spent in row["cpu_s"].values()))
        for row in chains
    ]
    print_table(
        ("CPU seconds", "MB of WARC files / CPU s", *chains[0]["cpu_s"]), steps, system_load()
    )
    write_json(options.json, [*stage_rows(costs), *chains])


if __name__ == "__main__":
    main()
