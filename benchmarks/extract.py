"""Scores and speed of the extractors on pages whose main text was marked by people.

    python -m benchmarks.extract [--pages FOLDER] [--repeats 3] [--peer PYTHON] [--json FILE]

FOLDER holds the archives of `benchmarks/extraction_pages.py`. F1 is over shingles of four tokens, precision and recall
averaged over pages; in the third set, over strings that must and must not be kept. `blocks` is scored on pages that its
weights have not seen: a page that the shipped weights were fitted on is extracted by weights fitted on the other four
fifths of the pages (`benchmarks/fit_blocks.py`). Milliseconds are CPU time of one process, the fastest pass over all
pages; the first pass has empty caches. trafilatura and readability-lxml take part where PYTHON, by default the
interpreter of this process, has them; they run in a process of their own.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import figure, parser, print_table, system_load, take_turns, verdict, write_json

from benchmarks.extraction_pages import SETS, MarkedPage, read_pages, read_plainly, score_strings, score_texts
from benchmarks.fit_blocks import FOLDS, fit_folds, label_pages, page_key
from benchmarks.peers import extractors as peer_extractors
from benchmarks.peers.datatrove_steps import PEER, ask
from clozeline.pipeline.clean.extractors import PageRefused
from clozeline.pipeline.clean.extractors._block_model import WEIGHTS
from clozeline.pipeline.clean.extractors.blocks import Blocks
from clozeline.registry import choose

TARGETS = {"article": 0.958, "readability": 0.975, "strings": 0.90}
SPEEDUP = 5.0
"""times as fast as the fastest form of trafilatura"""
FASTEST_PEER = "trafilatura, fast"
Extract = Callable[[str], str]


def build(name: str, **options: Any) -> Extract:
    """Return the `extract` of one of our extractors; a rejected page has no text."""
    return _refusing(choose("clozeline.pipeline.clean.extractors", {"name": name, **options}).build().extract)


def _refusing(extract: Extract) -> Extract:
    def answer(html: str) -> str:
        try:
            return extract(html)
        except PageRefused:
            return ""

    return answer


def unseen_extractors(pages: Sequence[MarkedPage]) -> tuple[dict[str, Extract], int]:
    """Return for each page `blocks` with weights not fitted on it, and how many pages the shipped weights know."""
    fitted = set(json.loads(WEIGHTS.read_text(encoding="utf-8"))["fitted_on"])
    known = [page for page in pages if f"{page_key(page):016x}" in fitted]
    shipped = build("blocks", title=False)
    options = Blocks.Options(title=False)
    folds = [_refusing(Blocks(options, weights).extract) for weights in fit_folds(label_pages(known))] if known else []
    by_page = {page.name: folds[page_key(page) % FOLDS] for page in known}
    return {page.name: by_page.get(page.name, shipped) for page in pages}, len(known)


def score(pages: Sequence[MarkedPage], texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 by set."""
    scores = {}
    for name in SETS:
        own = [(text, page) for text, page in zip(texts, pages, strict=True) if page.set == name]
        if own:
            strings = name == "strings"
            scores[name] = score_strings(own) if strings else score_texts((text, page.gold) for text, page in own)
    return scores


def make_rows(
    scores: dict[str, dict[str, dict[str, float]]], speeds: dict[str, dict[str, float]], counts: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the rows of `--json`: a row per extractor and set, then the speed of each, ours last."""
    rows = []
    for name, sets in scores.items():
        for key, values in sets.items():
            target = TARGETS[key] if name == "blocks" else None
            holds = target is None or values["f1"] >= target
            case = f"{key}, {counts[key]} pages: {name}"
            rows.append(figure(case, "F1", values["f1"], None, "", target, holds=holds, **values))
    peer = speeds.get(FASTEST_PEER)
    for name, values in speeds.items():
        if name != "blocks":
            rows.append(figure(f"speed: {name}", "ms/page", values["warm"], None, "", None, holds=True, **values))
    for key in ("warm", "first"):
        ours, other = speeds["blocks"][key], peer[key] if peer else None
        ratio = other / ours if other else None
        target = SPEEDUP if key == "warm" else None  # new class names cost once a process
        row = figure(f"speed: blocks, {key}", "ms/page", ours, other, FASTEST_PEER if peer else "", target,
                     holds=target is None or ratio is None or ratio >= target)  # fmt: skip
        rows.append({**row, "ratio": ratio})
    return rows


def main() -> int:
    """Print and write the figures; the exit code is 1 if a target is missed."""
    options = parser(
        __doc__, pages=(Path, "folder of the marked pages; default: $CLOZELINE_DATA/html"), repeats=3,
        peer=(PEER[0], "interpreter of an environment with trafilatura and readability-lxml; default: this one"),
    ).parse_args()  # fmt: skip
    folder = options.pages or Path(os.environ.get("CLOZELINE_DATA", ".")) / "html"
    if not folder.is_dir():
        print(f"extract: skipped, because {folder} is no folder; name it by --pages FOLDER")
        return 0
    pages = read_pages(folder)
    htmls = [page.html for page in pages]
    extractors = {"blocks": build("blocks", title=False), "resiliparse": build("resiliparse")}
    # the first pass before anything else has read these pages
    first = {name: measure_pass(extract, htmls) for name, extract in extractors.items()}
    works = {name: lambda extract=extract: measure_pass(extract, htmls) for name, extract in extractors.items()}
    warm = {name: min(seconds) / len(pages) * 1e3 for name, seconds in take_turns(works, options.repeats).items()}
    speeds = {name: {"first": first[name], "warm": warm[name]} for name in extractors}
    peers = ask(options.peer or sys.executable, str(options.repeats), htmls, peer_extractors.__file__)
    for name, answer in peers.items():
        first_s, *warm_s = answer["seconds"]
        speeds[name] = {"first": first_s / len(pages) * 1e3, "warm": min(warm_s) / len(pages) * 1e3}
    unseen, known = unseen_extractors(pages)
    texts = {name: [extract(html) for html in htmls] for name, extract in extractors.items()}
    texts |= {
        name: list(map(read_plainly, answer["texts"])) if answer["html"] else answer["texts"]
        for name, answer in peers.items()
    }
    texts["blocks"] = [unseen[page.name](page.html) for page in pages]
    scores = {name: score(pages, own) for name, own in texts.items()}
    rows = make_rows(scores, speeds, Counter(page.set for page in pages))
    cells = [
        (name, *(" ".join(f"{value:.3f}" for value in sets[key].values()) if key in sets else "–" for key in SETS),
         f"{speeds[name]['warm']:.1f}", f"{speeds[name]['first']:.1f}")
        for name, sets in scores.items()
    ]  # fmt: skip
    head = ("extractor", *(f"{key}: precision recall F1" for key in SETS), "ms/page", "first pass")
    print_table(head, cells, f"{len(pages)} pages; {known} of them by weights of the other folds; {system_load()}")
    targets = [(row["case"], f"{row['ratio'] or row['ours']:.3f}", row["target"], verdict(row["holds"])) for row in rows
               if row["target"]]  # fmt: skip
    print_table(("target", "reached", "at least", "holds"), targets, " ")
    write_json(options.json, rows)
    return int(not all(row["holds"] for row in rows))


def measure_pass(extract: Extract, htmls: Sequence[str]) -> float:
    """Return the CPU milliseconds per page."""
    start = time.process_time()
    for html in htmls:
        extract(html)
    return (time.process_time() - start) / len(htmls) * 1e3


if __name__ == "__main__":
    raise SystemExit(main())
