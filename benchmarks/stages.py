"""CPU time of each stage of the pipeline, and what that means for a cluster.

    python -m benchmarks.stages [--input FILES] [--terabytes 10] [--nodes 32] [--cores 64] [--json FILE]

The stages run one after another in this process, one unit at a time, so the CPU time of a stage is that of one core.
Texts are the given files, filtered, or the help topics, docstrings and modules of Python, which the filters would
reject. The first row counts the bytes of the files as they are stored, such as gzip members of a WARC; the others count
text. The last column is arithmetic: hours for that many terabytes, divided among the cores.
"""

import json
import tempfile
import time
from pathlib import Path

from benchmarks.harness import parser, print_table, system_load, write_json

from benchmarks.filters import natural_texts
from benchmarks.small_files import stage_seconds
from clozeline.pipeline.execution.stage_order import stages_of
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


def measure(source: str, folder: Path, filters: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the CPU seconds of each stage, and the megabytes that it read: of its files, and of text as UTF-8."""
    recipe, output = folder / "recipe.yaml", folder / "out"
    recipe.write_text(_RECIPE.replace("FILTERS", filters))
    seconds = {stage: stage_seconds(stage, recipe, source, output) for stage in stages_of(load_recipe(recipe))}
    records = [json.loads(path.read_text()) for path in (output / "clean/records").glob("*.json")]
    read = sum(record["counts"]["characters_in"] for record in records) / 1e6
    parts = sorted((output / "clean/documents").glob("*.arrow"))
    kept = sum(len(document.text.encode()) for part in parts for document in read_documents(part)) / 1e6
    stored = sum(record["counts"]["bytes_owned"] for record in records) / 1e6
    texts = {stage: read if stage == "clean" else kept for stage in seconds}
    return {_FILES: seconds["clean"], **seconds}, {_FILES: stored, **texts}


def main() -> None:
    options = parser(
        __doc__, input=(str, "files of text, like `input=` of a recipe"),
        terabytes=(10.0, "terabytes of text, for the last column (default: %(default)s)"), nodes=32,
        cores=(64, "cores of a node (default: %(default)s)"),
    ).parse_args()  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        folder, start = Path(temporary), time.monotonic()
        source = options.input or str(folder / "texts.jsonl")
        if not options.input:
            lines = (json.dumps({"text": text}) for text in natural_texts())
            Path(source).write_text("\n".join(lines) + "\n", encoding="utf-8")
        seconds, megabytes = measure(source, folder, _FILTERS if options.input else "[]")
        wall = time.monotonic() - start
    rates = {stage: megabytes[stage] / spent for stage, spent in seconds.items()}
    rows = []
    for stage, rate in rates.items():
        hours = f"{options.terabytes * 1e6 / rate / 3600 / options.nodes / options.cores:.2f}"
        hours = "one core, once" if stage == "train_tokenizer" else hours
        rows.append((stage, f"{megabytes[stage]:.1f}", f"{seconds[stage]:.1f}", f"{rate:.2f}", hours))
    cluster = f"{options.terabytes:g} TB on {options.nodes} x {options.cores} cores, hours"
    print_table(("stage", "MB read", "CPU s", "MB / CPU s", cluster), rows, f"{wall:.0f} s, {system_load()}")
    write_json(options.json, {"megabytes": megabytes, "rates": rates})


if __name__ == "__main__":
    main()
