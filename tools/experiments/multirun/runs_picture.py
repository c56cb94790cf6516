"""Draw trainings in one chart: losses during training, and the final figure of each seed, best mean on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clozeline.report.charts import render_svg
from clozeline.report.html_page import escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH: Final = 10.0
"""width in inches"""
_LINE: Final = 0.22
"""height of a line of figures in inches"""
_PARAMETERS: Final[Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.linewidth": 0.4,
}  # fmt: skip


@dataclass(frozen=True)
class Panels:
    """A row of the chart: curves on the left, with a dashed line at `level`; figures on the right.

    Curves are points (x, loss in nats) of the first seed by training; figures have a title and the values of all seeds
    by training.
    """

    title: str
    axis: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    level: float
    top: float
    figures: tuple[str, Mapping[str, Sequence[float]]]


def runs_picture(title: str, rows: Sequence[Panels]) -> str:
    """Return the SVG of rows of panels; each training keeps its color, and the text alternative lists all means."""
    import matplotlib as mpl

    names = list(dict.fromkeys(name for panels in rows for name in panels.curves))
    palette = mpl.colormaps["tab10" if len(names) <= mpl.colormaps["tab10"].N else "tab20"]
    colors = {name: mpl.colors.to_hex(palette(number % palette.N)) for number, name in enumerate(names)}
    heights = [max(1.6, _LINE * len(panels.curves) + 0.6) for panels in rows]

    def draw(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        figure.suptitle(title)
        axes = figure.subplots(len(rows), 2, squeeze=False, height_ratios=heights)
        for (left, right), row in zip(axes, rows, strict=True):
            _draw_curves(left, row, colors)
            _draw_figures(right, *row.figures, colors)

    svg, texts = render_svg(_WIDTH, sum(heights) + 0.4, _PARAMETERS, draw), [title]
    for panels in rows:
        means = sorted((sum(values) / len(values), name) for name, values in panels.figures[1].items())
        listed = ", ".join(f"{name} {mean:.4g}" for mean, name in means)
        texts.append(f"{panels.title}, {panels.figures[0]}: {listed}")
    opening = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:opening]}<title>{escape('; '.join(texts))}</title>{svg[opening:]}"


def _draw_curves(axes: Axes, panels: Panels, colors: Mapping[str, str]) -> None:
    for name, points in panels.curves.items():
        axes.plot(*zip(*points, strict=True), color=colors[name], linewidth=1.3, marker=".", markersize=4)
    axes.axhline(panels.level, color="0.4", linewidth=1, linestyle="--")
    axes.set_ylim(min(loss for points in panels.curves.values() for _, loss in points) - 0.1, panels.top)
    axes.set_title(panels.title, fontsize=9)
    axes.set_xlabel(panels.axis)


def _draw_figures(axes: Axes, title: str, figures: Mapping[str, Sequence[float]], colors: Mapping[str, str]) -> None:
    means = {name: sum(values) / len(values) for name, values in figures.items()}
    order = sorted(means, key=lambda name: (-means[name], name))
    for line, name in enumerate(order):
        values = figures[name]
        axes.scatter(values, [line] * len(values), s=22, color=colors[name])
        axes.annotate(f"{means[name]:.4g}", (max(values), line), (6, -3), textcoords="offset points", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.set_yticks(range(len(order)), order)
    for tick, name in zip(axes.get_yticklabels(), order, strict=True):
        tick.set_color(colors[name])
    axes.margins(x=0.15, y=0.06)
