"""Pictures with axes: lines, areas one above the other, and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pipeline.charts.drawing import figure, key, plot, shade, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Series", "areas", "histogram", "lines", "thinned"]

_POINTS: Final = 400
"""Points of a line, at most."""
_MARKED: Final = 24
"""A line of up to this many points shows each of them."""
_TICKS: Final = 5
_WIDEST: Final = 8
"""Bars that a histogram has room for, at least: a few are not drawn as broad as the picture."""


@dataclass(frozen=True)
class Series:
    """Points (x, y), by x, with a name."""

    name: str
    points: Sequence[tuple[float, float]]


def lines(
    title: str,
    series: Sequence[Series],
    x_name: str,
    *,
    levels: Mapping[str, float] | None = None,
    x_scale: Literal["linear", "log"] = "linear",
) -> str:
    """Return lines on shared axes; "" where no series has a finite point.

    Args:
        title: what is drawn, with its unit.
        series: eight are told apart by colour; long ones are thinned.
        x_name: what the horizontal axis counts.
        levels: dashed horizontal lines, by name.
        x_scale: scale of the horizontal axis.
    """
    shown = [Series(one.name, thinned(one.points)) for one in series]
    shown = [one for one in shown if one.points]
    heights = [(name, level) for name, level in (levels or {}).items() if math.isfinite(level)]

    def paint(axes: Axes) -> None:
        for number, (_, level) in enumerate(heights, len(shown)):
            axes.axhline(level, color=shade(number), linewidth=1.3, dashes=(4, 3), clip_on=False)
        for number, one in enumerate(shown):
            xs, ys = zip(*one.points, strict=True)
            axes.plot(xs, ys, color=shade(number), linewidth=1.4, clip_on=False)
            if len(xs) <= _MARKED:
                axes.scatter(xs, ys, s=16, color=shade(number), linewidths=0, zorder=3, clip_on=False)

    told = [f"{one.name} from {short(one.points[0][1])} to {short(one.points[-1][1])}" for one in shown]
    told += [f"{name} {short(level)}" for name, level in heights]
    keys = [key(number, one.name) for number, one in enumerate(shown)]
    keys += [key(n, f"{name} {short(level)}", dashed=True) for n, (name, level) in enumerate(heights, len(shown))]
    return figure(title, "; ".join(told), plot(x_name, paint, x_scale), keys if len(keys) > 1 else ()) if shown else ""


def areas(title: str, series: Sequence[Series], x_name: str) -> str:
    """Return areas one above the other, at the x of the first series; "" where there are no points."""
    points = [thinned(one.points) for one in series]
    if not points or not points[0]:
        return ""
    heights = [[y for _, y in one] for one in points]

    def paint(axes: Axes) -> None:
        colours = [shade(number) for number in range(len(series))]
        axes.stackplot([x for x, _ in points[0]], *heights, colors=colours, linewidth=0)
        axes.set_ylim(0)

    sums = [math.fsum(ys) for ys in heights]
    names = [f"{one.name} {100 * size / (sum(sums) or 1):.1f} %" for one, size in zip(series, sums, strict=True)]
    return figure(title, "; ".join(names), plot(x_name, paint), [key(*pair) for pair in enumerate(names)])


def histogram(title: str, edges: Sequence[int], counts: Sequence[int], x_name: str) -> str:
    """Return bars of equal width over ranges of whole numbers; "" where nothing was counted.

    Args:
        title: what is counted.
        edges: the first value of each bar, and the end of the last; ranges may widen.
        counts: one for each bar.
        x_name: what the values are.
    """
    if not any(counts):
        return ""

    def paint(axes: Axes) -> None:
        axes.bar(range(len(counts)), counts, width=0.86, color=shade(0))
        axes.set_xlim(-0.6, max(len(counts), _WIDEST) - 0.4)
        every = math.ceil(len(counts) / _TICKS)
        axes.set_xticks(range(0, len(counts), every), [short(edge) for edge in edges[: len(counts) : every]])

    highest = max(range(len(counts)), key=counts.__getitem__)
    told = f"{sum(counts):,} from {edges[0]:,} to {edges[-1] - 1:,}, most of them {_range(edges, highest)}"
    return figure(title, told, plot(x_name, paint, whole=True))


def _range(edges: Sequence[int], place: int) -> str:
    first, last = edges[place], edges[place + 1] - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the finite points; where there are more than 400, means of equally many neighbours."""
    finite = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(finite) / _POINTS))
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    return [(group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in groups]
