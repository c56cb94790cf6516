"""The whole chain from pages to rows of tokens, beside datatrove's own blocks.

    python -m benchmarks.chain [--warc FILE] [--pages FOLDER] [--most N]
        [--repeats 2] [--peers-python PYTHON] [--json FILE]

Extraction, near-duplicates by MinHash (14 bands of 8), tokens, and rows of 512 tokens. Both have
the same pages, the same tokenizer and one worker. Ours reads a WARC, datatrove a JSONL file with
the same pages, decoded before, because its reader of WARCs needs a system library. Seconds are CPU
seconds of the process and of all processes that it starts, the best of all repeats, in turns. The
rest is what the library of the extractor does not take, which runs alone on the same pages. Without
files, the pages are Python's reference; FOLDER holds the marked pages of
`benchmarks/extraction_pages.py`.

datatrove splits words by spaCy where that is installed, else at blanks, which is faster.
"""

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import (
    ROOT,
    Claim,
    best_seconds,
    finish,
    parser,
    print_table,
    system_load,
    temporary_folder,
)

import trafilatura
import yaml
from resiliparse.extract.html2text import extract_plain_text
from warcio.archiveiterator import ArchiveIterator

from benchmarks.extraction_pages import read_pages
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.tools.start.multirun.python_pages import render_pages, write_warc
from clozeline.tools.start.multirun.runner import write_pages

SMALLEST = "--most 40 --repeats 1"
_TARGETS: Final = {"trafilatura": (1.0, 2.0), "resiliparse": (3.5, 3.5)}
"""How many times fewer CPU seconds ours must take, by extractor: in all, and in the rest."""
_LIBRARIES: Final[dict[str, Callable[[str], str | None]]] = {
    "trafilatura": partial(
        trafilatura.extract, fast=True, deduplicate=False, include_comments=False
    ),
    "resiliparse": partial(extract_plain_text, main_content=True, alt_texts=False, links=False),
}
_CLOZELINE: Final = Path(sys.executable).with_name("clozeline")
_CHILD_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl: processes whose parent ended become children of this one."""
_WAIT_S: Final = 60.0
PAGES_FILE: Final = "pages.jsonl"
"""Pages for datatrove, next to the WARC."""


def write_recipe(folder: Path, warc: Path, extractor: str, tokenizer: dict[str, Any]) -> Path:
    """Return the file with the recipe of a chain whose output is `folder/out`."""
    recipe = {
        "corpus": "chain",
        "input": str(warc),
        "output": str(folder / "out"),
        "heldout": {"fraction": 0},
        "clean": {"extractor": extractor, "language": None, "filters": []},
        "dedup": {"exact": None, "near": {}},
        **tokenizer,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return path


def cpu_of(*command: object) -> tuple[float, str]:
    """Return the CPU seconds of a command and of all processes that it starts, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    folders = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    _wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout


def _wait_for_orphans() -> None:
    """Wait for processes that outlived their parent, such as a fork server."""
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            time.sleep(0.1)


def run_ours(folder: Path, warc: Path, tokenizer: Path, extractor: str) -> tuple[float, Any]:
    """Run the recipe in an empty folder; return CPU seconds and counts."""
    stages = {
        "tokenizer": {"path": str(tokenizer)},
        "encode": {},
        "group": {},
        "corrupt": [{"name": "causal_lm", "max_length": 512}],
    }
    recipe = write_recipe(folder, warc, extractor, stages)
    seconds, _ = cpu_of(_CLOZELINE, "pipeline", "--quiet", "--config", recipe)
    read = {
        stage: json.loads((folder / "out" / stage / "report.json").read_text(encoding="utf-8"))
        for stage in ("clean", "encode")
    }
    encoded = read["encode"]["counts"]
    return seconds, {
        "texts": read["clean"]["counts"]["documents_out"],
        "kept": encoded["documents_out"],
        "tokens": encoded["tokens"],
    }


def run_theirs(
    folder: Path, warc: Path, tokenizer: Path, extractor: str, python: str
) -> tuple[float, Any]:
    """Run datatrove's blocks in an empty folder; return CPU seconds and counts."""
    module = "benchmarks.peers.datatrove_chain"
    file = tokenizer / "tokenizer.json"
    pages = warc.with_name(PAGES_FILE)
    seconds, said = cpu_of(python, "-m", module, pages, file, folder, extractor)
    return seconds, json.loads(said.splitlines()[-1])


def library_seconds(pages: Path, extractor: str, repeats: int) -> float:
    """Return the CPU seconds of the library of an extractor alone, for the pages as they are."""
    texts = [json.loads(line)["text"] for line in pages.read_text(encoding="utf-8").splitlines()]
    return best_seconds(lambda: list(map(_LIBRARIES[extractor], texts)), repeats)


def write_inputs(folder: Path, warc: Path | None, pages: Path | None, most: int) -> Path:
    """Write the WARC of our chain, and the same pages for datatrove next to it."""
    made = folder / "pages" / "pages.warc.gz"
    made.parent.mkdir()
    if warc is not None:
        shutil.copyfile(warc, made)
    elif most:
        write_warc(made, islice(render_pages(), most))
    elif pages is None:
        write_pages(made)
    else:
        marked = read_pages(pages)
        addresses = (f"http://pages.example/{number}" for number in range(len(marked)))
        write_warc(made, zip(addresses, (page.html for page in marked), strict=True))

    with made.open("rb") as stream, made.with_name(PAGES_FILE).open("w", encoding="utf-8") as out:
        for number, record in enumerate(ArchiveIterator(stream)):
            if record.rec_type == "response":
                body = record.content_stream().read()
                text, _ = decode(body, meta=True) or ("", 0)
                out.write(json.dumps({"id": f"{number}", "text": text}) + "\n")
    return made


def main() -> int:
    """Run both chains with both extractors; return the exit code, 1 if ours is too slow."""
    options = parser(
        __doc__,
        warc=Path,
        pages=Path,
        most=(0, "first pages of Python's reference; default: all"),
        repeats=2,
        peers_python=(sys.executable, "interpreter with benchmarks/peers/requirements.txt"),
    ).parse_args()
    theirs_run = partial(run_theirs, python=options.peers_python)
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    claims = []
    rows = []
    with temporary_folder() as folder:
        warc = write_inputs(folder, options.warc, options.pages, options.most)
        sample = {"train_tokenizer": {"name": "byte_bpe", "size": 8000}}
        recipe = write_recipe(folder / "sample", warc, "resiliparse", sample)
        cpu_of(_CLOZELINE, "pipeline", "--quiet", "--config", recipe)
        tokenizer = folder / "sample" / "out" / "train_tokenizer" / "tokenizer"
        for extractor, targets in _TARGETS.items():
            best: dict[str, tuple[float, Any]] = {}
            for repeat in range(options.repeats):
                for chain, run in (("ours", run_ours), ("datatrove", theirs_run)):
                    out = folder / f"{chain}-{extractor}-{repeat}"
                    found = run(out, warc, tokenizer, extractor)
                    best[chain] = min(best.get(chain, found), found, key=lambda each: each[0])
            library = library_seconds(warc.with_name(PAGES_FILE), extractor, options.repeats)
            rows += [
                (extractor, chain, f"{seconds:.1f}", f"{seconds - library:.1f}", *counts.values())
                for chain, (seconds, counts) in best.items()
            ]
            ours, theirs = best["ours"][0], best["datatrove"][0]
            case = f"pages to rows with {extractor}"
            for part, cost, target in zip(("", ", the rest"), (0.0, library), targets, strict=True):
                figures = (ours - cost, theirs - cost)
                claims.append(Claim(f"{case}{part}", "CPU s", *figures, "datatrove", target))
    print_table(
        ("extractor", "chain", "CPU s", "rest", "texts", "kept", "tokens"),
        rows,
        f"{warc.name}; {system_load()}",
    )
    return finish(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
