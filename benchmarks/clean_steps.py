"""CPU time of `clean` by step, with and without the compiled module: WARC to documents, in turns on the same crawl.

    python -m benchmarks.clean_steps [--crawl FILES] [--rounds 3] [--json FILE]

Without FILES, pages as in `benchmarks.clean`. Each figure is the smallest of the rounds, in ms; a step's
time excludes that of steps inside it, and the extractor's includes its process.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.harness import parser, print_table, system_load, write_json

import psutil

from benchmarks.clean import prose, warc_record
from clozeline.configuration.config import validate
from clozeline.native.library import missing_note, numpy_only
from clozeline.pipeline.clean import steps
from clozeline.pipeline.clean.extractors._extraction import Extraction
from clozeline.pipeline.clean.filters import c4_quality, fineweb_quality, gopher_quality, gopher_repetition
from clozeline.pipeline.clean.languages import LanguageRule
from clozeline.pipeline.execution.stage_order import stage_of
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.readers.warc import Warc
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.text import word_tokens

FILTERS = {
    "gopher_quality": gopher_quality.GopherQuality, "c4_quality": c4_quality.C4Quality,
    "fineweb_quality": fineweb_quality.FinewebQuality, "gopher_repetition": gopher_repetition.GopherRepetition,
}  # fmt: skip
_RECIPE = {"language": {"name": "py3langid"}, "filters": [*FILTERS]}


class Steps:
    """Adds up the CPU seconds of functions, each without those that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def timed(self, label: str, work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> Any:
        start = clock()
        self._inside.append(0.0)
        try:
            return work()
        finally:
            spent = clock() - start
            self.seconds[label] += spent - self._inside.pop()
            self._inside[-1] += spent

    def wrap(self, owner: Any, name: str, label: str, clock: Callable[[], float] = time.process_time) -> None:
        function = getattr(owner, name)

        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            return self.timed(label, lambda: function(*arguments, **options), clock)

        setattr(owner, name, call)

    def wrap_iterator(self, owner: Any, name: str, label: str) -> None:
        function = getattr(owner, name)

        @wraps(function)
        def iterate(*arguments: Any) -> Iterator[Any]:
            items, end = iter(function(*arguments)), object()
            while (item := self.timed(label, lambda: next(items, end))) is not end:
                yield item

        setattr(owner, name, iterate)


CHILDREN: list[psutil.Process] = []  # found once: to look for them takes longer than some steps


def cpu_with_children() -> float:
    """Return the CPU seconds of this process and its children; of children in ticks of 10 ms."""
    times = [child.cpu_times() for child in CHILDREN]
    return time.process_time() + sum(item.user + item.system for item in times)


def main() -> None:
    """Measure both forms in turns, print the table."""
    options = parser(__doc__, crawl=("", "WARC files, a glob"), rounds=3).parse_args()
    measured = Steps()
    measured.wrap_iterator(Warc, "read", "read records")
    measured.wrap(Warc, "_make_item", "HTTP, charset")
    measured.wrap(Extraction, "extract", "extract text", cpu_with_children)
    measured.wrap(steps, "normalize", "normalize")
    measured.wrap(LanguageRule, "judge", "language")
    for name, step in FILTERS.items():
        measured.wrap(step, "judge", name)
    forms = {"numpy": numpy_only, "compiled": nullcontext}
    best: dict[str, dict[str, float]] = {name: {} for name in forms}
    with tempfile.TemporaryDirectory() as folder:
        crawl = options.crawl
        if not crawl:
            crawl = str(Path(folder) / "crawl.warc.gz")
            Path(crawl).write_bytes(b"".join(warc_record(text)[0] for text in prose(400, 7)))
        out = Path(folder) / "out"
        recipe = {"corpus": "b", "input": crawl, "output": str(out), "clean": _RECIPE}
        work = stage_of(validate(Recipe, recipe, "benchmark"), "clean").passes()[0]
        units = range(work.units)
        for turn in range(options.rounds + 1):
            for name, form in forms.items():
                measured.seconds.clear()
                word_tokens._shared = word_tokens.TokenTable()  # a new crawl has words that no table has
                with form():
                    run = lambda: [work.run(number, Output(out)) for number in units]  # noqa: E731
                    measured.timed("write, count", run, cpu_with_children)
                CHILDREN[:] = psutil.Process().children()
                for label, seconds in {**measured.seconds, "all": sum(measured.seconds.values())}.items():
                    if turn:  # the first one warms up
                        best[name][label] = min(seconds, best[name].get(label, seconds))
    rows = [{"step": label, **{name: best[name][label] for name in forms}} for label in best["numpy"]]
    for row in rows:
        row["ratio"] = row["numpy"] / max(row["compiled"], 1e-9)
    shown = []
    for row in rows:
        share = row["compiled"] / rows[-1]["compiled"]
        shown.append(
            [row["step"], *(f"{row[name] * 1e3:.0f}" for name in forms), f"{share:.1%}", f"{row['ratio']:.2f}"]
        )
    print_table(("step", "numpy, ms", "compiled, ms", "share", "ratio"), shown, "CPU time of clean by step")
    print(f"\n{system_load()}{'; ' + note if (note := missing_note()) else ''}")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
