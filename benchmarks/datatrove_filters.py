"""Speed of our filters beside the same rules of datatrove, and how often both decide the same.

    python -m benchmarks.datatrove_filters [--texts 1000] [--json FILE]

Texts come with Python: help topics, docstrings and modules. Both sides run in this process, one
text at a time, with the options that give the published rules. Figures are CPU milliseconds a text,
the best of three runs; datatrove's words and sentences are those of spaCy. The exit code is 1 where
ours is slower.
"""

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from benchmarks.harness import Claim, best_seconds, finish, parser, print_table

from datatrove.data import Document as DatatroveDocument
from datatrove.pipeline import filters as blocks

from benchmarks.texts import natural_texts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text.text_statistics import TextStatistics

SMALLEST = "--texts 20"
RUNS = 3
PAIRS: dict[str, tuple[dict[str, Any], type]] = {
    "gopher_quality": ({"letter_words": "tokens"}, blocks.GopherQualityFilter),
    "c4_quality": ({"terminal_marks": [".", "?", "!", '"', "'"]}, blocks.C4QualityFilter),
    "gopher_repetition": ({"min_words": 0}, blocks.GopherRepetitionFilter),
    "fineweb_quality": ({}, blocks.FineWebQualityFilter),
}
"""Our options that give the published rule, and the class of datatrove, by filter."""


def judge_ours(name: str, options: dict[str, Any], texts: list[str]) -> list[bool]:
    """Return which texts our filter keeps."""
    step = FILTERS.resolve({"name": name, **options}).build()
    kept = []
    for text in texts:
        statistics = TextStatistics(text, as_written=True)
        verdict = step.judge(Document(bytes(16), text, "s", language="en"), statistics)
        kept.append(not verdict.reason)
    return kept


def judge_theirs(block: type, texts: list[str]) -> list[bool]:
    """Return which texts the filter of datatrove keeps."""
    step = block()
    return [step.filter(DatatroveDocument(text, "")) is True for text in texts]


def measure(texts: list[str], runs: int = RUNS) -> tuple[list[Claim], list[tuple[str, str]]]:
    """Return a claim for each filter, and the share of equal decisions."""
    claims = []
    agreements = []
    for name, (options, block) in PAIRS.items():
        ours: Callable[[], list[bool]] = lambda n=name, o=options: judge_ours(n, o, texts)  # noqa: E731
        theirs: Callable[[], list[bool]] = lambda b=block: judge_theirs(b, texts)  # noqa: E731
        equal = sum(mine == other for mine, other in zip(ours(), theirs(), strict=True))
        agreements.append((name, f"{equal:,} of {len(texts):,}"))
        seconds = [best_seconds(work, runs) for work in (ours, theirs)]
        mine, peer = (1000 * each / len(texts) for each in seconds)
        claims.append(Claim(name, "ms a text", mine, peer, "datatrove"))
    return claims, agreements


def main() -> int:
    """Measure, print and return the exit code."""
    arguments = parser(__doc__, texts=1000).parse_args()
    texts = list(islice(cycle(natural_texts()), arguments.texts))
    claims, agreements = measure(texts)
    print_table(["filter", "equal decisions"], agreements)
    return finish(claims, arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
