"""Recompute the counts of `decontaminate` by sets of words, from its index and the documents before it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeline.pipeline.decontaminate.overlap import CLEAN_FILE, read_clean_items
from clozeline.pipeline.decontaminate.passes import index_file
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.kernels.ngram_index import FEWEST_WORDS, NgramIndex, open_index
from clozeline.pipeline.text.normal_form import match_words


def recount_contamination(
    folder: Path, config: Mapping[str, Any], counts: Mapping[str, Any], documents: Iterable[Document]
) -> Iterator[tuple[str, object, object]]:
    """Yield counts, their values in the report, and recomputed values; all runs of the items are kept in memory."""
    index, ngram = open_index(index_file(folder)), config["ngram"]
    items = [_texts(index, item, ngram) for item in range(len(index.item_rows))]
    runs = {run for texts in items for text in texts for run in text.values()}
    sizes = {run.count(" ") + 1 for run in runs}
    held = []
    for document in documents:
        sides = [match_words(side) for side in (document.text, document.target_text or "")]
        held.append(runs & {run for side in sides for size in sizes for run in _runs(side, size).values()})
    frequency = Counter(run for some in held for run in some)
    ignored = {run for run, number in frequency.items() if number > config["max_document_frequency"]}
    contaminated = [some - ignored for some in held if some - ignored]
    found, taken = sum(map(len, held)), sum(map(len, contaminated))
    short = sum(run.count(" ") + 1 < ngram for run in runs)
    yield "compared", counts["compared"], len(held)
    yield "contaminated_documents", counts["contaminated_documents"], len(contaminated)
    entries = {"full": len(runs) - short, "short": short, "too_frequent": len(ignored)}
    yield "entries", counts["entries"], entries
    matches = {"found": found, "counted": found, "taken": taken, "ignored": found - taken}
    yield "matches", counts["matches"], matches
    after = sum(1 for path in (folder / "documents").glob("*.arrow") for _ in read_documents(path))
    yield "documents_out", counts["documents_out"], after
    yield from _recount_suites(folder, index, counts, items, contaminated)


def _recount_suites(
    folder: Path, index: NgramIndex, counts: Mapping[str, Any], items: list[list[dict[int, str]]],
    contaminated: list[set[str]],
) -> Iterator[tuple[str, object, object]]:  # fmt: skip
    """Yield the counts of each suite; how many rows a reader rejected is known from the evaluation file alone."""
    files = read_clean_items(folder / CLEAN_FILE)
    found = set().union(*contaminated)
    for suite, reported in sorted(counts["suites"].items()):
        own = [item for item, file in enumerate(index.item_files.tolist()) if files[file]["suite"] == suite]
        runs = {item: {run for text in items[item] for run in text.values()} for item in own}
        judged = [item for item in own if runs[item]]
        inside = 0
        for item in judged:
            for text in items[item]:
                starts = [(start, run.count(" ") + 1) for start, run in text.items() if run in found]
                inside += len({word for start, size in starts for word in range(start, start + size)})
        every = set().union(*runs.values())
        yield f"suites.{suite}", reported, {
            "items": len(own), "unreadable": reported["unreadable"], "too_short": len(own) - len(judged),
            "words": sum(len(words) for item in judged for words in _fields(index, item)), "overlap_words": inside,
            "contaminated": sum(bool(runs[item] & found) for item in own),
            "documents": sum(bool(some & every) for some in contaminated),
        }  # fmt: skip


def _fields(index: NgramIndex, item: int) -> Iterator[list[str]]:
    """Yield the words of each text of an item."""
    first, last = index.item_bounds[item : item + 2]
    for field in index.item_fields[first:last].tolist():
        start, end = index.starts[index.fields[field : field + 2]].tolist()
        yield str(index.words[start:end], "utf-8").split()


def _texts(index: NgramIndex, item: int, ngram: int) -> list[dict[int, str]]:
    """Return the runs of each text of an item, by their first words."""
    texts = []
    for words in _fields(index, item):
        short = FEWEST_WORDS <= len(words) < ngram
        texts.append(_runs(words, len(words) if short else ngram))
    return texts


def _runs(words: list[str], size: int) -> dict[int, str]:
    """Return all runs of `size` words, by their first words."""
    return {start: " ".join(words[start : start + size]) for start in range(len(words) - size + 1)}
