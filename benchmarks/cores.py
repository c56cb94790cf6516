"""Clean text with filters and drop near-duplicates, on all cores, beside datatrove with as many.

    python -m benchmarks.cores [--megabytes 300] [--workers N] [--keep FOLDER] [--json FILE]

The text is made of shuffled sentences of the docstrings that come with Python's packages: JSON
lines in eight files, with 3 % planted copies and 2 % near-copies. Both sides run gopher_quality
with its published rules and MinHash with 14 bands of 8, one after the other: seconds on the wall,
CPU seconds of all processes, and the peak of their private memory, sampled each half second.
`--keep` leaves the text and both outputs in a folder.
"""

import json
import random
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from benchmarks.harness import Claim, finish, parser, system_load, temporary_folder

import psutil
import yaml

from clozeline.memory import find_cores

SMALLEST = "--megabytes 0.2"
FILES = 8
RECIPE = {
    "corpus": "cores",
    "clean": {"language": None, "filters": [{"name": "gopher_quality", "letter_words": "tokens"}]},
    "dedup": {"exact": None, "near": {"ngram": 5, "bands": 14, "rows": 8}},
}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PROSE = re.compile(r"[A-Z][A-Za-z ,'-]{38,398}[.!?]")
"""A sentence without code, which the filters keep."""


def read_sentences(most: int) -> list[str]:
    """Return sentences of docstrings, each once, in a fixed order."""
    found: dict[str, None] = {}
    folders = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")]
    paths = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="ignore")
        for docstring in re.findall(r'"""(.*?)"""', text, re.DOTALL):
            sentences = _SENTENCE.split(" ".join(docstring.split()))
            found.update(dict.fromkeys(filter(_PROSE.fullmatch, sentences)))
        if len(found) > most:
            break
    return [*found][:most]


def write_corpus(folder: Path, size: int) -> None:
    """Write `size` bytes of documents, 3 % of them copies and 2 % near-copies of others."""
    folder.mkdir(parents=True)
    sentences = read_sentences(max(2_000, size // 600))
    draw = random.Random(7)
    recent: list[str] = []
    for number in range(FILES):
        written = 0
        with (folder / f"{number}.jsonl").open("w", encoding="utf-8") as file:
            while written < size / FILES:
                kind = draw.random()
                if kind < 0.05 and recent:
                    words = draw.choice(recent).split(" ")
                    if kind < 0.02:
                        words[draw.randrange(len(words))] = "changed"
                    text = " ".join(words)
                else:
                    count = int(min(200, max(3, draw.lognormvariate(2.8, 0.8))))
                    text = " ".join(draw.choices(sentences, k=count))
                    recent = [*recent[-999:], text]
                written += file.write(json.dumps({"text": text}) + "\n")


def measure(*command: object) -> tuple[float, float, float]:
    """Return seconds on the wall, CPU seconds and the peak of private MB of a command."""
    start = time.monotonic()
    process = psutil.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0.0
    seconds: dict[int, float] = {}
    while process.poll() is None:
        private = 0
        for each in [process, *process.children(recursive=True)]:
            try:
                private += each.memory_full_info().uss
                seconds[each.pid] = sum(each.cpu_times()[:2])
            except psutil.Error:  # it has ended
                continue
        peak = max(peak, private / 1e6)
        time.sleep(0.5)
    if process.returncode:
        raise RuntimeError(process.stderr.read().decode()[-500:])
    return time.monotonic() - start, sum(seconds.values()), peak


def main() -> int:
    """Compare both sides; the exit code is 1 if ours takes longer."""
    options = parser(
        __doc__,
        megabytes=(300.0, "text"),
        workers=(find_cores(), "processes"),
        keep=(str, "folder"),
    ).parse_args()
    with temporary_folder() as temporary:
        folder = temporary if options.keep is None else Path(options.keep)
        write_corpus(folder / "in", int(1e6 * options.megabytes))
        (folder / "r.yaml").write_text(yaml.safe_dump(RECIPE))
        ours = (sys.executable, "-m", "clozeline", "pipeline", "--config", folder / "r.yaml")
        ours += (f"input={folder}/in/*.jsonl", f"output={folder}/ours")
        ours += (f"executor.workers={options.workers}",)
        module = "benchmarks.peers.datatrove_text"
        theirs = (sys.executable, "-m", module, folder / "in", folder / "theirs", options.workers)
        our_figures, their_figures = measure(*ours), measure(*theirs)
        kept = [_count_ours(folder / "ours"), _count_theirs(folder / "theirs" / "kept")]

    units = ("s on the wall", "CPU s", "MB of private memory")
    case = f"{options.megabytes:g} MB of text, {options.workers} workers"
    claims = [
        Claim(case, unit, mine, peer, "datatrove")
        for unit, mine, peer in zip(units, our_figures, their_figures, strict=True)
    ]
    told = f"documents that are left: {kept[0]:,} and {kept[1]:,}"
    return finish(claims, options.json, f"{told}; {system_load()}")


def _count_ours(output: Path) -> int:
    report = json.loads((output / "dedup" / "report.json").read_text())
    return int(report["counts"]["documents_out"])


def _count_theirs(folder: Path) -> int:
    from datatrove.pipeline.readers import JsonlReader

    return sum(1 for _ in JsonlReader(str(folder))())


if __name__ == "__main__":
    sys.exit(main())
