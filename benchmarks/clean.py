"""Speed of cleaning on one core: a crawl through the whole stage, and the filters against datatrove's.

    python benchmarks/clean.py [--pages 400] [--peer PYTHON] [--json FILE]

Pages are prose of Python's own help topics, a sixth of the page's bytes. Figures are MB per CPU second, the
extractor's process included, the best of several runs. datatrove's filters split words with spaCy, in an environment of
their own: benchmarks/peers/datatrove_steps.py names its packages. For the whole chain its extractor is not installed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

os.environ.update(LOGURU_LEVEL="ERROR", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.peers.datatrove_steps import ask
from pipeline.config import validate
from pipeline.execution.order import stage_of
from pipeline.execution.unit_record import Output
from pipeline.recipe import Recipe
from pipeline.registry import choose
from pipeline.text.text_statistics import TextStatistics

_RUNS = 5
_FILTERS = [choose("pipeline.filters", name).build() for name in ("gopher_quality", "c4_quality", "gopher_repetition")]
_MENU = "".join(f"<li><a href='/section/{n}' class='menu-item'>Section {n}</a></li>" for n in range(150))


def prose(count: int, paragraphs: int) -> list[str]:
    """Return texts of `paragraphs` paragraphs of the help topics, some 300 bytes each."""
    parts = [" ".join(part.split()) for text in topics.values() for part in text.split("\n\n")]
    whole = [part for part in parts if len(part) > 120 and part.endswith(".") and part[0].isupper()]
    draw = random.Random(1)
    return ["\n\n".join(draw.sample(whole, paragraphs)) for _ in range(count)]


def capture(text: str) -> tuple[bytes, int]:
    """Return a gzip member with a page, and the page's bytes."""
    body = "".join(f"<p class='text'>{part}</p>" for part in text.split("\n\n"))
    page = f"<html><head><title>A page</title></head><body><nav><ul>{_MENU}</ul></nav><main>{body}</main></body></html>"
    payload = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page.encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/\r\nContent-Type: application/http\r\n"
    )
    return gzip.compress(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload + b"\r\n\r\n"), len(page)


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children."""
    times = [process.cpu_times() for process in (psutil.Process(), *psutil.Process().children())]
    return float(sum(item.user + item.system for item in times))


def speed(work: Callable[[], Any], size: int) -> float:
    """Return MB per CPU second, the best of some runs."""
    work()
    seconds = []
    for _ in range(_RUNS):
        start = cpu_seconds()
        work()
        seconds.append(cpu_seconds() - start)
    return size / min(seconds) / 1e6


def stage(documents: Sequence[str]) -> float:
    """Measure MB of HTML per CPU second through the default `clean`, from the crawl to its Arrow files."""
    captures = [capture(text) for text in documents]
    with tempfile.TemporaryDirectory() as folder:
        crawl, out = Path(folder) / "crawl.warc.gz", Path(folder) / "out"
        crawl.write_bytes(b"".join(member for member, _ in captures))
        data = {"corpus": "b", "input": str(crawl), "output": str(out), "clean": {}}
        work = stage_of(validate(Recipe, data, "benchmark"), "clean").passes()[0]
        return speed(lambda: work.run(0, Output(out)), sum(size for _, size in captures))


def ours(documents: Sequence[str]) -> None:
    """Run every filter on every document; measures are shared, as in the stage."""
    for text in documents:
        statistics = TextStatistics(text)
        for step in _FILTERS:
            step.judge(statistics, "en")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with datatrove and spaCy")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures: list[tuple[str, float, float | None, float]] = []
    figures.append(("clean, MB of HTML", stage(prose(options.pages, 7)), None, 6.0))
    for paragraphs, name, target in (
        (7, "three filters, texts of 2 KB", 6.0),
        (28, "three filters, texts of 8 KB", 8.0),
    ):
        texts = prose(options.pages * 7 // paragraphs, paragraphs)
        size = sum(len(text.encode()) for text in texts)
        mine = speed(lambda texts=texts: ours(texts), size)  # type: ignore[misc]
        other = size / ask(options.peer, "filter_seconds", texts) / 1e6 if options.peer else None
        figures.append((name, mine, other, target))
    rows = [
        {"case": case, "ours": mine, "peer": other, "peer_name": "datatrove" if other else None, "unit": "MB/s",
         "ratio": mine / other if other else None, "target": target, "holds": mine >= target}
        for case, mine, other, target in figures
    ]  # fmt: skip
    table = Table("case", "ours", "datatrove", "ratio", "target", "holds", title="MB per CPU second")
    for row in rows:
        shown = [
            f"{value:.1f}" if isinstance(value := row[name], float) else "–"
            for name in ("ours", "peer", "ratio", "target")
        ]
        table.add_row(str(row["case"]), *shown, "yes" if row["holds"] else "no")
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
