"""Scores and speed of the extractors on pages whose main text was marked by people.

    python -m benchmarks.extract --pages FOLDER [--repeats 3] [--json FILE]

FOLDER holds the archives of `benchmarks/extraction_pages.py`. F1 is over shingles of four tokens,
precision and recall averaged over pages; in the third set, over strings that must and must not be
kept. Each extractor reads the pages as `clean` gives them to it, prepared, and as they are.
Milliseconds are CPU time of one process, the fastest pass over all pages, in turns.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import figure, parser, print_table, system_load, take_turns, write_json

from resiliparse.parse.html import HTMLTree

from benchmarks.extraction_pages import SETS, MarkedPage, read_pages, score_strings, score_texts
from clozeline.pipeline.clean.extractors._preparation import prepare_page
from clozeline.pipeline.registries import EXTRACTORS

SMALLEST = None
CASES: dict[str, dict[str, Any]] = {
    "resiliparse": {"name": "resiliparse"},
    "trafilatura": {"name": "trafilatura"},
    "trafilatura, fast: false": {"name": "trafilatura", "fast": False},
}
Extract = Callable[[str], str]


def build(options: dict[str, Any], *, prepares: bool) -> Extract:
    """Return what an extractor makes of a page, with or without the preparation.

    A rejected page has no text.
    """
    extractor = EXTRACTORS.resolve(options).build()

    def extract(html: str) -> str:
        text: str = extractor.extract(prepare_page(html) if prepares else HTMLTree.parse(html))
        return text

    return extract


def score(pages: Sequence[MarkedPage], texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 by set."""
    scores = {}
    for name in SETS:
        own = [(text, page) for text, page in zip(texts, pages, strict=True) if page.set == name]
        if own:
            strings = name == "strings"
            scores[name] = (
                score_strings(own)
                if strings
                else score_texts((text, page.gold) for text, page in own)
            )
    return scores


def main() -> int:
    """Print and write the figures."""
    made = parser(__doc__, repeats=3)
    made.add_argument("--pages", type=Path, required=True, metavar="FOLDER")
    options = made.parse_args()
    pages = read_pages(options.pages)
    htmls = [page.html for page in pages]
    extractors = {f"{name}, bare": build(keys, prepares=False) for name, keys in CASES.items()}
    extractors |= {name: build(keys, prepares=True) for name, keys in CASES.items()}
    works = {
        name: lambda extract=extract: list(map(extract, htmls))
        for name, extract in extractors.items()
    }
    speeds = {
        name: min(passes) / len(pages) * 1e3
        for name, passes in take_turns(works, options.repeats).items()
    }
    scores = {name: score(pages, list(map(extract, htmls))) for name, extract in extractors.items()}
    counts = Counter(page.set for page in pages)
    rows = [
        figure(f"{key}, {counts[key]} pages: {name}", "F1", values["f1"], **values)
        for name, sets in scores.items()
        for key, values in sets.items()
    ]

    rows += [figure(f"speed: {name}", "ms/page", ms) for name, ms in speeds.items()]
    cells = [
        (
            name,
            *(
                " ".join(f"{value:.3f}" for value in sets[key].values()) if key in sets else "–"
                for key in SETS
            ),
            f"{speeds[name]:.1f}",
        )
        for name, sets in sorted(scores.items())
    ]

    head = ("extractor", *(f"{key}: precision recall F1" for key in SETS), "ms/page")
    print_table(head, cells, f"{len(pages)} pages; {system_load()}")
    write_json(options.json, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
