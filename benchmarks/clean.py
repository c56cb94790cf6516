"""Speed of cleaning on one core: a crawl through the complete stage, and the filters against datatrove's.

    python -m benchmarks.clean [--pages 400] [--peer PYTHON] [--json FILE]

Pages are prose from Python's help topics, which makes up a sixth of a page's bytes. Figures are MB per CPU second, the
extractor's process included, the best of several runs. datatrove's filters split words with spaCy, in an environment of
their own: benchmarks/peers/datatrove_steps.py names its packages.
"""

import gzip
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from benchmarks.harness import best_seconds, cpu_seconds, figure, parser, print_figures, write_json

from benchmarks.peers.datatrove_steps import PEER, ask
from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import choose

RUNS = 5
FILTERS = [
    choose("clozeline.pipeline.clean.filters", name).build()
    for name in ("gopher_quality", "c4_quality", "gopher_repetition", "fineweb_quality")
]
MENU = "".join(f"<li><a href='/section/{n}' class='menu-item'>Section {n}</a></li>" for n in range(150))


def prose(count: int, paragraphs: int) -> list[str]:
    """Return texts of `paragraphs` paragraphs of the help topics, about 300 bytes each."""
    parts = [" ".join(part.split()) for text in topics.values() for part in text.split("\n\n")]
    sentences = [part for part in parts if len(part) > 120 and part.endswith(".") and part[0].isupper()]
    draw = random.Random(1)
    return ["\n\n".join(draw.sample(sentences, paragraphs)) for _ in range(count)]


def warc_record(text: str) -> tuple[bytes, int]:
    """Return a gzip member with a page, and the page's bytes."""
    body = "".join(f"<p class='text'>{part}</p>" for part in text.split("\n\n"))
    page = f"<html><head><title>A page</title></head><body><nav><ul>{MENU}</ul></nav><main>{body}</main></body></html>"
    payload = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page.encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/\r\nContent-Type: application/http\r\n"
    )
    return gzip.compress(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload + b"\r\n\r\n"), len(page)


def speed(work: Callable[[], Any], size: int) -> float:
    return size / best_seconds(work, RUNS, cpu_seconds) / 1e6


def measure_stage(documents: Sequence[str]) -> float:
    """Measure MB of HTML per CPU second through the default `clean`, from the crawl to its Arrow files."""
    records = [warc_record(text) for text in documents]
    with tempfile.TemporaryDirectory() as folder:
        crawl, out = Path(folder) / "crawl.warc.gz", Path(folder) / "out"
        crawl.write_bytes(b"".join(member for member, _ in records))
        data = {"corpus": "b", "input": str(crawl), "output": str(out), "clean": {}}
        work = stage_of(validate(Recipe, data, "benchmark"), "clean").passes()[0]
        return speed(lambda: work.run(0, Output(out)), sum(size for _, size in records))


def run_filters(documents: Sequence[str]) -> None:
    """Run every filter on every document; statistics are shared, as in the stage."""
    for text in documents:
        statistics = TextStatistics(text)
        for step in FILTERS:
            step.judge(statistics, "en")


def main() -> None:
    options = parser(__doc__, pages=400, peer=PEER).parse_args()
    crawl = measure_stage(prose(options.pages, 7))
    rows = [figure("clean, MB of HTML", "MB/s", crawl, None, None, 2.5, holds=crawl >= 2.5)]
    for paragraphs, kilobytes, target in ((7, 2, 2.0), (28, 8, 3.0)):
        texts = prose(options.pages * 7 // paragraphs, paragraphs)
        size = sum(len(text.encode()) for text in texts)
        ours = speed(lambda texts=texts: run_filters(texts), size)
        peer = size / ask(options.peer, "filter_seconds", texts) / 1e6 if options.peer else None
        case, name = f"four filters, texts of {kilobytes} KB", "datatrove" if peer else None
        rows.append(figure(case, "MB/s", ours, peer, name, target, holds=ours >= target))
    print_figures(rows, ("case", "ours", "datatrove", "ratio", "target", "holds"), title="MB per CPU second")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
