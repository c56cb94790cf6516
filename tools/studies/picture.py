"""The picture of a study: for each measure the losses on the way, and the last ones of all seeds, from low to high."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Measured", "picture"]

_WIDTH: Final = 10.0
"""Inches from left to right."""
_LINE: Final = 0.22
"""Inches of a variant's line."""
_PARAMETERS: Final[Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "clozeline",  # equal data give equal bytes
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
}


@dataclass(frozen=True)
class Measured:
    """Losses of one measure, in nats.

    Args:
        last: losses of all seeds at the end, by variant.
        curves: points (operations, loss) of the first seed, by variant.
        unigram: entropy of the labels, of a model that knows their frequencies alone.
    """

    last: Mapping[str, Sequence[float]]
    curves: Mapping[str, Sequence[tuple[float, float]]]
    unigram: float


def picture(title: str, measures: Mapping[str, Measured]) -> str:
    """Return an SVG with a row for each measure; equal losses give equal bytes.

    Args:
        title: of the study.
        measures: their losses, by name; each has a variant.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    variants = list(dict.fromkeys(variant for one in measures.values() for variant in one.last))
    palette = mpl.colormaps["tab10" if len(variants) <= mpl.colormaps["tab10"].N else "tab20"]
    colours = {variant: mpl.colors.to_hex(palette(number % palette.N)) for number, variant in enumerate(variants)}
    heights = [max(1.6, _LINE * len(one.last) + 0.6) for one in measures.values()]
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings must not change the picture
        mpl.rcParams.update(_PARAMETERS)
        drawn = Figure(figsize=(_WIDTH, sum(heights) + 0.4), layout="constrained")
        drawn.suptitle(title)
        rows = drawn.subplots(len(measures), 2, squeeze=False, height_ratios=heights)
        for (left, right), (name, measured) in zip(rows, measures.items(), strict=True):
            _on_the_way(left, name, measured, colours)
            _at_the_end(right, measured, colours)
        stream = io.StringIO()
        drawn.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return stream.getvalue()


def _on_the_way(axes: Axes, name: str, measured: Measured, colours: Mapping[str, str]) -> None:
    """Draw losses over operations, as far as they are below the unigram entropy or little above it."""
    for variant, points in measured.curves.items():
        axes.plot(*zip(*points, strict=True), color=colours[variant], linewidth=1.3, marker=".", markersize=4)
    axes.axhline(measured.unigram, color="0.4", linewidth=1, linestyle="--")
    lowest = min(min(losses) for losses in measured.last.values())
    top = max(measured.unigram + 0.3, lowest + 0.5)
    axes.set_ylim(lowest - 0.1, top)
    axes.set_title(f"{name}: nats; dashed: unigram {measured.unigram:.2f}", fontsize=9)
    axes.set_xlabel("10¹² FLOPs")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e12:g}")


def _at_the_end(axes: Axes, measured: Measured, colours: Mapping[str, str]) -> None:
    """Draw the last losses, the lowest on top, with a point for each seed."""
    means = {variant: sum(losses) / len(losses) for variant, losses in measured.last.items()}
    order = sorted(means, key=lambda variant: (-means[variant], variant))
    for line, variant in enumerate(order):
        losses = measured.last[variant]
        axes.scatter(losses, [line] * len(losses), s=22, color=colours[variant])
        axes.annotate(f"{means[variant]:.3f}", (max(losses), line), (6, -3), textcoords="offset points", fontsize=8)
    axes.set_yticks(range(len(order)), order)
    for tick, variant in zip(axes.get_yticklabels(), order, strict=True):
        tick.set_color(colours[variant])
    axes.margins(x=0.15, y=0.06)
