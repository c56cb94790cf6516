"""Pictures as inline SVG: how long rows are, and how much of the text the most frequent ids make up."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.shard_statistics.tally import quantile

__all__ = ["coverage_curve", "histogram"]

_WIDTH: Final = 640
_HEIGHT: Final = 160
_BARS: Final = 64
_SKEWED: Final = 16
"""Times that the largest value is the median, from which bars of equal width would show one bar alone."""
_COLOUR: Final = "#4a7bd0"


def histogram(title: str, counts: NDArray[np.int64]) -> str:
    """Bars over values 0, 1, 2, ..., neighbours put together where there are more than 64.

    Where a few values are very much larger than most, the bars stand for more and more values each.
    """
    edges = _edges(counts)
    bins = np.add.reduceat(counts, edges[:-1]) if len(counts) else np.zeros(1, np.int64)
    step, top = _WIDTH / len(bins), max(1, int(bins.max()))
    bars = []
    for place, count in enumerate(bins.tolist()):
        first, last = int(edges[place]), int(edges[place + 1]) - 1
        height = _HEIGHT * count / top
        span = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        bars.append(
            f'<rect x="{place * step:.1f}" y="{_HEIGHT - height:.1f}" width="{max(0.5, step - 1):.1f}" '
            f'height="{height:.1f}" fill="{_COLOUR}"><title>{span}: {count:,}</title></rect>'
        )
    widening = ", bars widening to the right" if edges[1] - edges[0] < edges[-1] - edges[-2] else ""
    return _framed(f"{title}{widening}", "".join(bars), "0", f"{max(0, len(counts) - 1):,}", f"{top:,} rows")


def _edges(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each bar begins, and where the last ends."""
    size = len(counts)
    if size > _BARS and size > _SKEWED * (quantile(counts, 0.5) + 1):
        return np.unique(np.concatenate(([0], np.geomspace(1, size, _BARS).round()))).astype(np.int64)
    width = max(1, -(-size // _BARS))
    return np.append(np.arange(0, max(1, size), width), max(1, size))


def coverage_curve(title: str, counts: NDArray[np.int64]) -> str:
    """Share of the tokens (up) that the n most frequent ids (right, logarithmic) make up."""
    ordered = np.sort(counts[counts > 0])[::-1]
    if not len(ordered):
        return ""
    share = np.cumsum(ordered) / ordered.sum()
    ranks = np.unique(np.geomspace(1, len(ordered), 128).round().astype(np.int64))
    right = np.log(ranks) / max(1e-9, np.log(max(2, len(counts))))
    points = " ".join(
        f"{_WIDTH * x:.1f},{_HEIGHT * (1 - share[rank - 1]):.1f}" for x, rank in zip(right, ranks, strict=True)
    )
    curve = f'<polyline points="{points}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>'
    return _framed(title, curve, "1 id", f"{len(counts):,} ids", "100 %")


def _framed(title: str, inside: str, left: str, right: str, top: str) -> str:
    labels: Sequence[tuple[int, int, str, str]] = (
        (0, _HEIGHT + 16, "start", left),
        (_WIDTH, _HEIGHT + 16, "end", right),
        (_WIDTH + 6, 10, "start", top),
    )
    texts = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>' for x, y, anchor, text in labels
    )
    size = f'width="{_WIDTH + 110}" height="{_HEIGHT + 22}"'
    line = f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="#c3cad6"/>'
    return (
        f"<h2>{html.escape(title)}</h2>"
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="12">{line}{inside}{texts}</svg>'
    )
