"""Charts of a set: row lengths, coverage by the most frequent ids, label kinds, languages and sources."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.shards import Manifest
from clozeline.report.charts import Series, bars, histogram, lines, shares
from clozeline.tools.shards.shard_statistics.tally import LABEL_KINDS, Tally, named, quantile

_BARS: Final = 48
_SKEWED: Final = 16
"""Ratio of the largest value to the median above which equally wide bars would be mostly empty."""


def pictures(manifest: Manifest, sums: Tally) -> Iterator[str]:
    """Yield a chart for each distribution of the set."""
    for name, counts in sums.lengths.items():
        # rows per bar
        edges = ranges(counts)
        bins = np.add.reduceat(counts, edges[:-1]) if len(counts) else np.zeros(1, np.int64)
        widening = edges[1] - edges[0] < edges[-1] - edges[-2]
        values = f"values in a row{', ranges widen to the right' if widening else ''}"
        yield histogram(f"Rows by length of {name}", edges.tolist(), bins.tolist(), values)
    for name, counts in sums.ids.items():
        title = f"Share of {name} covered by the most frequent ids (%)"
        yield lines(title, [Series(name, coverage(counts))], "ids", x_scale="log")
    kinds = dict(zip(LABEL_KINDS, sums.labels.tolist(), strict=True))
    yield bars("Labels by the input token at their position", shares(kinds))
    yield bars("Tokens by language", shares(named(sums.tokens_by_language, manifest.languages)))
    yield bars("Tokens by source", shares(sums.tokens_by_source))


def ranges(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edges of the bars over the values 0, 1, 2, ...

    Neighboring values share a bar if there are many; if a few are far above the median, the ranges widen.
    """
    size = len(counts)
    if size > _BARS and size > _SKEWED * (quantile(counts, 0.5) + 1):
        return np.unique(np.concatenate(([0], np.geomspace(1, size, _BARS).round()))).astype(np.int64)
    width = max(1, -(-size // _BARS))
    return np.append(np.arange(0, max(1, size), width), max(1, size))


def coverage(counts: NDArray[np.int64]) -> list[tuple[float, float]]:
    """Return points (n, percentage of all tokens that the n most frequent ids cover).

    Example: `coverage(array([0, 60, 40])) == [(1, 60), (2, 100)]`.
    """
    ordered = np.sort(counts[counts > 0])[::-1]
    if not len(ordered):
        return []
    share = 100 * np.cumsum(ordered) / ordered.sum()
    ranks = np.unique(np.geomspace(1, len(ordered), 128).round().astype(np.int64))
    return [(float(rank), float(share[rank - 1])) for rank in ranks]
