"""A picture of trainings side by side: losses on the way, and a figure of each seed at the end, from low to high."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Panels", "runs_picture"]

_WIDTH: Final = 10.0
"""Inches from left to right."""
_LINE: Final = 0.22
"""Inches of a line of figures."""
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
class Panels:
    """A row of the picture: curves on the left, figures on the right.

    Args:
        title: above the curves.
        axis: beneath the curves.
        curves: points (x, loss in nats) of the first seed, by name of the training.
        level: loss of the dashed line.
        top: highest loss that is shown.
        figures: title of the figures, and those of all seeds, by name of the training; some may have none.
    """

    title: str
    axis: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    level: float
    top: float
    figures: tuple[str, Mapping[str, Sequence[float]]]


def runs_picture(title: str, rows: Sequence[Panels]) -> str:
    """Return an SVG; equal figures give equal bytes.

    Args:
        title: above all.
        rows: from top to bottom; each has a training.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for one in rows for name in one.curves))
    palette = mpl.colormaps["tab10" if len(names) <= mpl.colormaps["tab10"].N else "tab20"]
    colours = {name: mpl.colors.to_hex(palette(number % palette.N)) for number, name in enumerate(names)}
    heights = [max(1.6, _LINE * len(one.curves) + 0.6) for one in rows]
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings must not change the picture
        mpl.rcParams.update(_PARAMETERS)
        drawn = Figure(figsize=(_WIDTH, sum(heights) + 0.4), layout="constrained")
        drawn.suptitle(title)
        axes = drawn.subplots(len(rows), 2, squeeze=False, height_ratios=heights)
        for (left, right), panels in zip(axes, rows, strict=True):
            _on_the_way(left, panels, colours)
            _at_the_end(right, *panels.figures, colours)
        stream = io.StringIO()
        drawn.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return stream.getvalue()


def _on_the_way(axes: Axes, panels: Panels, colours: Mapping[str, str]) -> None:
    """Draw the curves, as far as they are below the top."""
    for name, points in panels.curves.items():
        axes.plot(*zip(*points, strict=True), color=colours[name], linewidth=1.3, marker=".", markersize=4)
    axes.axhline(panels.level, color="0.4", linewidth=1, linestyle="--")
    axes.set_ylim(min(loss for points in panels.curves.values() for _, loss in points) - 0.1, panels.top)
    axes.set_title(panels.title, fontsize=9)
    axes.set_xlabel(panels.axis)


def _at_the_end(axes: Axes, title: str, figures: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Draw the figures, the lowest mean on top, with a point for each seed."""
    means = {name: sum(values) / len(values) for name, values in figures.items()}
    order = sorted(means, key=lambda name: (-means[name], name))
    for line, name in enumerate(order):
        values = figures[name]
        axes.scatter(values, [line] * len(values), s=22, color=colours[name])
        axes.annotate(f"{means[name]:.4g}", (max(values), line), (6, -3), textcoords="offset points", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.set_yticks(range(len(order)), order)
    for tick, name in zip(axes.get_yticklabels(), order, strict=True):
        tick.set_color(colours[name])
    axes.margins(x=0.15, y=0.06)
