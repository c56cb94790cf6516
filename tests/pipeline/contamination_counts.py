"""Recompute the counts of `decontaminate` by sets of words, from the evaluation files and the documents before it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeline.configuration.config import validate
from clozeline.pipeline.decontaminate.config import DecontaminateConfig
from clozeline.pipeline.decontaminate.evaluation_items import evaluation_files, read_items
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.kernels.ngram_index import FEWEST_WORDS
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.text.normal_form import match_words


def recount_contamination(
    folder: Path, config: Mapping[str, Any], counts: Mapping[str, Any], documents: Iterable[Document]
) -> Iterator[tuple[str, object, object]]:
    """Yield counts, their values in the report, and recomputed values; all runs of the items are kept in memory."""
    ngram, suites, items = config["ngram"], list[str](), list[list[list[str]]]()
    for file in evaluation_files(validate(DecontaminateConfig, dict(config), "test").against):
        for item in read_items(file, Limits()):
            if not isinstance(item, Rejected):
                suites.append(file.suite)
                items.append([match_words(text) for text in item.texts])
    texts_of = [[_text_runs(words, ngram) for words in texts] for texts in items]
    runs = {run for texts in texts_of for text in texts for run in text.values()}
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
    yield "reported", counts["reported"], dict(sorted(Counter(suites).items()))
    found_runs = set().union(*contaminated)
    for suite, reported in sorted(counts["suites"].items()):
        own = [item for item, name in enumerate(suites) if name == suite]
        item_runs = {item: {run for text in texts_of[item] for run in text.values()} for item in own}
        judged = [item for item in own if item_runs[item]]
        inside = 0
        for item in judged:
            for text in texts_of[item]:
                starts = [(start, run.count(" ") + 1) for start, run in text.items() if run in found_runs]
                inside += len({word for start, size in starts for word in range(start, start + size)})
        every = set().union(*item_runs.values())
        yield f"suites.{suite}", reported, {
            "items": len(own), "unreadable": reported["unreadable"],
            "too_short": len(own) - len(judged), "overlap_words": inside,
            "words": sum(len(words) for item in judged for words in items[item]),
            "contaminated": sum(bool(item_runs[item] & found_runs) for item in own),
            "documents": sum(bool(some & every) for some in contaminated),
        }  # fmt: skip


def _text_runs(words: list[str], ngram: int) -> dict[int, str]:
    """Return the runs of a text of an item, by their first words."""
    short = FEWEST_WORDS <= len(words) < ngram
    return _runs(words, len(words) if short else ngram)


def _runs(words: list[str], size: int) -> dict[int, str]:
    """Return all runs of `size` words, by their first words."""
    return {start: " ".join(words[start : start + size]) for start in range(len(words) - size + 1)}
