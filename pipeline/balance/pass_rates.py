"""Factors of cluster sizes from the share of their documents that passes filters.

FineWeb2 (Penedo et al. 2025, arXiv 2506.20920) calls this rehydration: documents that a crawl holds
often are repeated if filters reject fewer of them than of all documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from clozeline.pipeline.balance.counts import BalanceCounts
from clozeline.pipeline.balance.selection import Selection
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.copies import FurtherFactors

RATES_KEY: Final = "balance.rehydrate.passes"
SIZE_CLASSES: Final = tuple(1 << power for power in range(1, 31))
"""Smallest sizes of the classes above one document: 2 to 3, 4 to 7, and so on."""
_FEWEST_DOCUMENTS: Final = 100
"""Documents of a class at least; the share of fewer says little, so their factor is 1."""


@dataclass(frozen=True)
class CountPassing(Pass[BalanceCounts]):
    """One unit per part of the documents: count those that an expression is true of, by class of cluster sizes."""

    units: int
    documents: Path
    """folder of the stage that wrote the documents"""
    passes: str
    name: str = "rate"
    intermediate: ClassVar[bool] = True

    def run(self, unit: int, output: Output) -> BalanceCounts:
        classes = FurtherFactors.read_classes(output.folder, SIZE_CLASSES)
        rates: dict[str, dict[str, int]] = {}
        for uid, passes in Selection(self.passes, RATES_KEY).select(self.documents, unit):
            counted = rates.setdefault(str(classes.size_class(uid)), {"documents": 0, "passed": 0})
            counted["documents"] += 1
            counted["passed"] += passes
        return {"rates": rates}


def factors_of_rates(rates: Mapping[str, Mapping[str, int]], most: float) -> dict[int, float]:
    """Return the factor of each class of sizes: `most` at the highest share that passes, 1 at that of all documents.

    Between them it is linear. `rates` has `documents` and `passed` by class; 0 is the class of single documents.
    """
    shares = {
        int(size): counts["passed"] / counts["documents"] for size, counts in rates.items()
        if counts["documents"] >= _FEWEST_DOCUMENTS and int(size) > 0
    }  # fmt: skip
    total = sum(counts["documents"] for counts in rates.values())
    overall = sum(counts["passed"] for counts in rates.values()) / max(1, total)
    gain = max(shares.values(), default=0.0) - overall
    if gain <= 0:
        return dict.fromkeys(SIZE_CLASSES, 1.0)
    above = {size: max(0.0, share - overall) / gain for size, share in shares.items()}
    return {size: round(1 + (most - 1) * above.get(size, 0.0), 6) for size in SIZE_CLASSES}
