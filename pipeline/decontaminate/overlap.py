"""Report which evaluation items documents hold, and which items are clean."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64
from clozeline.errors import IntegrityError
from clozeline.files import file_hash, parse_json
from clozeline.pipeline.decontaminate.counts import SuiteCounts
from clozeline.pipeline.decontaminate.evaluation_items import EvaluationFile
from clozeline.pipeline.kernels.ngram_index import NgramIndex
from clozeline.pipeline.rows import segments
from clozeline.pipeline.text.normal_form import MATCH_VERSION
from clozeline.repair import repair_of
from clozeline.sealed_json import seal, unseal

OVERLAP_FORMAT: Final = 1
OVERLAP_FILE: Final = "overlap.json"
"""Contaminated items with their documents and overlap, and the runs that too many documents hold."""
CLEAN_FILE: Final = "clean_items.json"
"""For each evaluation file and its hash: the rows of clean, of contaminated and of too short items."""


class Overlap:
    """Sums over the parts, of the entries that are chosen: shape [E] of the index."""

    def __init__(self, index: NgramIndex, files: Sequence[EvaluationFile], chosen: Bool) -> None:
        self.index, self.files, self.chosen = index, files, chosen
        self.documents = 0
        """documents with a chosen entry"""
        self.suites = sorted({file.suite for file in files})
        self._suite_of = np.array([self.suites.index(file.suite) for file in files])[index.item_files]
        self._items, self._suites = np.zeros(len(self._suite_of), np.int64), np.zeros(len(self.suites), np.int64)
        # items of the chosen entries, one after another
        owners = [index.items_of(entry) for entry in np.flatnonzero(chosen).tolist()]
        self._owners = np.concatenate([np.empty(0, np.int64), *owners])
        self._bounds = np.concatenate(([0], np.cumsum([len(items) for items in owners], dtype=np.int64)))
        self._places = np.cumsum(chosen) - 1
        self._words, self._inside = index.covered(chosen)
        self._too_short: Bool = index.covered(np.ones(len(index), dtype=bool))[1] == 0

    def add(self, matches: NDArray[np.uint32]) -> None:
        """Add the matches of a part, (document, entry) [n, 2]: count the documents of each item and suite."""
        documents, entries = matches[self.chosen[matches[:, 1]]].astype(np.int64).T
        self.documents += len(np.unique(documents))
        # pairs of documents and items, then of documents and suites, each once
        first, last = (self._bounds[self._places[entries] + end] for end in (0, 1))
        items = segments(self._owners, first, last - first)
        pairs = np.unique(np.stack((np.repeat(documents, last - first), items)), axis=1)
        self._items += np.bincount(pairs[1], minlength=len(self._items))
        pairs = np.unique(np.stack((pairs[0], self._suite_of[pairs[1]])), axis=1)
        self._suites += np.bincount(pairs[1], minlength=len(self._suites))

    def suite_counts(self) -> dict[str, SuiteCounts]:
        """Return the counts of each suite."""
        counts: dict[str, SuiteCounts] = {}
        for number, suite in enumerate(self.suites):
            own = self._suite_of == number
            judged = own & ~self._too_short
            counts[suite] = {
                "too_short": int((own & self._too_short).sum()), "contaminated": int((self._items[own] > 0).sum()),
                "words": int(self._words[judged].sum()), "overlap_words": int(self._inside[own].sum()),
                "documents": int(self._suites[number]),
            }  # fmt: skip
        return counts

    def write_overlap(self, path: Path, frequency: Int64, too_frequent: Bool) -> None:
        """Write the contaminated items of each suite, and the entries that are ignored with their documents."""
        sizes = np.bincount(self._suite_of, minlength=len(self.suites)).tolist()
        suites: dict[str, Any] = {
            name: {
                **counts,
                "items": sizes[self.suites.index(name)],
                "overlap": round(counts["overlap_words"] / max(1, counts["words"]), 6),
                "found": [],
            }
            for name, counts in self.suite_counts().items()
        }
        for item in np.flatnonzero(self._items).tolist():
            file = self.files[self.index.item_files[item]]
            share = round(int(self._inside[item]) / int(self._words[item]), 6)
            suites[file.suite]["found"].append({
                "file": file.name, "row": int(self.index.item_rows[item]), "id": self.index.item_names[item].as_py(),
                "documents": int(self._items[item]), "overlap": share,
            })  # fmt: skip
        ignored: list[dict[str, Any]] = [
            {"words": self.index.entry(entry), "documents": int(frequency[entry])}
            for entry in np.flatnonzero(too_frequent).tolist()
        ]
        ignored.sort(key=lambda row: (-row["documents"], row["words"]))
        _write_json(path, {"format": OVERLAP_FORMAT, "ngram": self.index.ngram, "suites": suites, "ignored": ignored})

    def write_clean_items(self, path: Path) -> None:
        """Write the rows of clean, contaminated and too short items of each evaluation file."""
        files = []
        for number, file in enumerate(self.files):
            own = self.index.item_files == number
            contaminated: Bool = self._items > 0
            clean = ~contaminated & ~self._too_short
            kinds = {"contaminated": contaminated, "too_short": self._too_short, "clean": clean}
            rows = {name: self.index.item_rows[own & chosen].tolist() for name, chosen in kinds.items()}
            reader = None if file.reader is None else file.reader.plain()
            files.append({"suite": file.suite, "name": file.name, "reader": reader, "xxh3_128": file_hash(file.path),
                          "rows": rows})  # fmt: skip
        _write_json(path, {"format": OVERLAP_FORMAT, "ngram": self.index.ngram, "match_version": MATCH_VERSION,
                           "files": files})  # fmt: skip


def read_clean_items(path: Path) -> list[dict[str, Any]]:
    """Return the files of a report of clean items, each with `suite`, `name`, `xxh3_128` and `rows` by kind.

    Raises:
        IntegrityError: it is damaged, or another file.
    """
    try:
        files: list[dict[str, Any]] = unseal(parse_json(path.read_text(encoding="utf-8")), path, OVERLAP_FORMAT)[
            "files"
        ]
    except (ValueError, KeyError) as error:
        raise IntegrityError(
            f"{path}: expected the report {CLEAN_FILE} of `clozeline decontaminate`, got another or a damaged file "
            f"({error}); {repair_of(path)}"
        ) from error
    return files


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(seal(content), sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
