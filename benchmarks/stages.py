"""CPU time of each stage of the pipeline, and what it makes of a cluster.

    python benchmarks/stages.py [--input FILES] [--terabytes 10] [--nodes 32] [--cores 64] [--json FILE]

The stages run one after another in this process, with one unit at a time, so that a stage's CPU time is that of one
core. Texts are the given files, filtered, or the help topics, docstrings and modules that come with Python, which the
filters would reject. The first row counts bytes of the files as they are stored, such as gzip members of a WARC; the
others text. The last column is arithmetic: hours for so many terabytes of that, divided among the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1", OMP_THREAD_LIMIT="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks.filters import natural_texts
from pipeline.__main__ import stage_main
from pipeline.documents.files import read_documents
from pipeline.execution.order import stages_of
from pipeline.recipe import load_recipe

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


def measured(source: str, folder: Path, filters: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the CPU seconds of each stage, and the megabytes that it read: of its files, and of text as UTF-8."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE.replace("FILTERS", filters))
    seconds = {}
    for stage in stages_of(load_recipe(recipe)):
        start = os.times()
        arguments = ["--config", str(recipe), f"input={source}", f"output={folder / 'out'}", "executor.workers=1"]
        if code := stage_main(stage, arguments):
            raise SystemExit(code)
        end = os.times()
        seconds[stage] = sum(end[:4]) - sum(start[:4])
    records = [json.loads(path.read_text()) for path in (folder / "out/clean/records").glob("*.json")]
    read = sum(record["counts"]["characters_in"] for record in records) / 1e6
    parts = sorted((folder / "out/clean/documents").glob("*.arrow"))
    kept = sum(len(document.text.encode()) for part in parts for document in read_documents(part)) / 1e6
    stored = sum(record["counts"]["bytes_owned"] for record in records) / 1e6
    texts = {stage: read if stage == "clean" else kept for stage in seconds}
    return {_FILES: seconds["clean"], **seconds}, {_FILES: stored, **texts}


def main() -> None:
    """Print one row a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", help="files of text, as `input=` of a recipe")
    parser.add_argument("--terabytes", type=float, default=10, help="of text, for the last column (%(default)s)")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--cores", type=int, default=64, help="of a node (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, began = Path(temporary), time.monotonic()
        source = given.input or str(folder / "texts.jsonl")
        if not given.input:
            lines = (json.dumps({"text": text}) for text in natural_texts())
            Path(source).write_text("\n".join(lines) + "\n", encoding="utf-8")
        seconds, megabytes = measured(source, folder, _FILTERS if given.input else "[]")
        wall = time.monotonic() - began
    table = Table(title=f"{wall:.0f} s, load {os.getloadavg()[0]:.0f}")
    head = (
        "stage",
        "MB read",
        "CPU s",
        "MB / CPU s",
        f"{given.terabytes:g} TB on {given.nodes} x {given.cores} cores, hours",
    )
    for name in head:
        table.add_column(name, justify="right")
    rates = {stage: megabytes[stage] / spent for stage, spent in seconds.items()}
    for stage, rate in rates.items():
        hours = given.terabytes * 1e6 / rate / 3600 / (1 if stage == "train_tokenizer" else given.nodes * given.cores)
        shown = "one core, once" if stage == "train_tokenizer" else f"{hours:.2f}"
        table.add_row(stage, f"{megabytes[stage]:.1f}", f"{seconds[stage]:.1f}", f"{rate:.2f}", shown)
    Console(width=110).print(table)
    if given.json:
        given.json.write_text(json.dumps({"megabytes": megabytes, "rates": rates}))


if __name__ == "__main__":
    main()
