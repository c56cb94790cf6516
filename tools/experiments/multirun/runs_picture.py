"""Draw trainings in one chart: losses during training, and the final figure of each seed, best mean on top."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clozeline.report.charts import LINE, MUTED, Box, Plot, dot, picture, polyline, text
from clozeline.report.html_page import escape

_WIDTH: Final = 720
# Boxes of curves and figures in a row; names of trainings are on the left of the second.
_CURVES: Final = (40.0, 310.0)
_FIGURES: Final = (462.0, 680.0)
_NAME_CHARACTERS: Final = 22
_HEADER: Final = 34
"""height of the title, and between the panels of two rows below the upper one"""
_LINE: Final = 16
"""height of a line of figures"""
_COLORS: Final = (
    "#2a66c8", "#b8501f", "#2a7a4d", "#c2333f", "#7a4bb5", "#7d5a3c", "#a8327f", "#5b6475", "#7d6a10", "#1f7f8c",
    "#7f9fdc", "#d99a72", "#79b08f", "#dd8a90", "#ab8fd3", "#b09a85", "#cf84b5", "#98a0ac", "#b3a65c", "#76b2ba",
)  # fmt: skip
_STYLE: Final = f"{LINE[4:-1]}:#d9dfe7;{MUTED[4:-1]}:#566070;color:#1b2330;font-family:system-ui,sans-serif"
"""Light colors on white: as a file of its own, the picture has no page around it."""


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
    names = list(dict.fromkeys(name for panels in rows for name in panels.curves))
    colors = {name: _COLORS[number % len(_COLORS)] for number, name in enumerate(names)}
    shapes, top, texts = [text(_WIDTH / 2, 20, title, size=13, anchor="middle")], float(_HEADER), [title]
    for panels in rows:
        bottom = top + _HEADER + max(110, _LINE * len(panels.curves))
        shapes += _draw_curves(panels, colors, (_CURVES[0], top + _HEADER, _CURVES[1], bottom))
        shapes += _draw_figures(*panels.figures, colors, (_FIGURES[0], top + _HEADER, _FIGURES[1], bottom))
        means = sorted((sum(values) / len(values), name) for name, values in panels.figures[1].items())
        listed = ", ".join(f"{name} {mean:.4g}" for mean, name in means)
        texts.append(f"{panels.title}, {panels.figures[0]}: {listed}")
        top = bottom + _HEADER
    first = f"<title>{escape('; '.join(texts))}</title>", '<rect width="100%" height="100%" fill="#fff"/>'
    drawn = picture([*first, *shapes], _WIDTH, top)
    return drawn.replace("<svg role=img", f'<svg xmlns="http://www.w3.org/2000/svg" role="img" style="{_STYLE}"', 1)


def _draw_curves(panels: Panels, colors: Mapping[str, str], box: Box) -> Iterator[str]:
    points = [point for curve in panels.curves.values() for point in curve]
    lowest = min(loss for _, loss in points) - 0.1
    plot = Plot([x for x, _ in points], [lowest, panels.top, panels.level], panels.axis, box=box)
    yield plot.y_axis() + plot.x_axis()
    yield text((box[0] + box[2]) / 2, box[1] - 12, panels.title, anchor="middle")
    yield polyline(plot.place([(x, panels.level) for x in plot.xs]), MUTED, width=1, dashed=True)
    for name, curve in panels.curves.items():
        # a loss above the top is drawn at the top
        shown = plot.place([(x, min(loss, plot.ys[1])) for x, loss in curve])
        yield polyline(shown, colors[name], width=1.3)
        yield from (dot(x, y, colors[name], 1.8) for x, y in shown)


def _draw_figures(
    title: str, figures: Mapping[str, Sequence[float]], colors: Mapping[str, str], box: Box
) -> Iterator[str]:
    means = {name: sum(values) / len(values) for name, values in figures.items()}
    order = sorted(means, key=lambda name: (-means[name], name))
    plot = Plot([value for values in figures.values() for value in values], [0, max(1, len(order))], "", box=box)
    yield plot.x_axis()
    yield text((box[0] + box[2]) / 2, box[1] - 12, title, anchor="middle")
    for line, name in enumerate(order):
        at = box[1] + (line + 0.5) * (box[3] - box[1]) / len(order)
        positions = [plot.x(value) for value in figures[name]]
        yield text(box[0] - 8, at + 3.5, name[:_NAME_CHARACTERS], color=colors[name], anchor="end")
        yield from (dot(x, at, colors[name], 2.6) for x in positions)
        yield text(max(positions) + 6, at + 3.5, f"{means[name]:.4g}", size=9)
