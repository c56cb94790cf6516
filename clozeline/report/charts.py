"""Draw line charts of report pages as SVG; equal data give equal bytes.

Text stays text, colors are variables of the page, and every chart has a text alternative for screen
readers. A picture is 340 units wide and scales with its box, so that it is legible on a phone.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from clozeline.report.escaping import escape
from clozeline.report.views import Chart, Points, Series, merge_equal

SHADES: Final = 8
"""Number of colors for series."""
MUTED: Final = "var(--muted)"
LINE: Final = "var(--line)"
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom, in units."""

_SIZE: Final = (340, 190)
_BOX: Final = (46.0, 10.0, 328.0, 154.0)
_FONT: Final = 10.5
# Share of the height that stays free above and below the points.
_AIR: Final = 0.05
# Most points of a line, and most points of a line that shows each as a dot.
_POINTS: Final = 400
_MARKED: Final = 24
# Share of a smooth line's points in one running mean.
_SMOOTHED: Final = 0.05


def _drawn_series(chart: Chart) -> list[Series]:
    """Return the series that have finite points, with no more points than a picture shows.

    Equal series are one, which names all of them.
    """
    thin = ((line.name, (tuple(thin_points(line.points)), line.smooth)) for line in chart.series)
    return [Series(name, points, smooth) for name, (points, smooth) in merge_equal(thin) if points]


def describe_chart(chart: Chart) -> str:
    """Return a chart as text, with the ends of its lines."""
    described = []
    for line in _drawn_series(chart):
        first, last = line.points[0][1], line.points[-1][1]
        described.append(f"{line.name} from {short(first)} to {short(last)}")
    levels = [f"{name} {short(level)}" for name, level in _finite_levels(chart).items()]
    return f"{chart.title}: {'; '.join([*described, *levels])}"


def _finite_levels(chart: Chart) -> dict[str, float]:
    return {name: level for name, level in (chart.levels or {}).items() if math.isfinite(level)}


def draw_chart(chart: Chart) -> str:
    """Return a chart, which has a finite point, as a figure with an SVG.

    Eight series have different colors; long ones are thinned.
    """
    shown = _drawn_series(chart)
    heights = _finite_levels(chart)
    xs, ys = zip(*(point for line in shown for point in line.points), strict=True)
    plot = Plot(xs, [*ys, *heights.values()], chart.x_name)
    shapes = [plot.y_axis(), plot.x_axis()]
    legend = []

    # curves, each with its points or its running mean
    for number, line in enumerate(shown):
        points = plot.project(line.points)
        color = shade(number)
        name = line.name

        if line.smooth and len(points) > _MARKED:
            shapes.append(polyline(points, color, width=0.8, opacity=0.35))
            means = running_mean([y for _, y in points])
            points = [(x, mean) for (x, _), mean in zip(points, means, strict=True)]
            name += ": pale, and its running mean"

        shapes.append(polyline(points, color))
        if len(points) <= _MARKED:
            shapes += (dot(x, y, color) for x, y in points)
        legend.append(_legend_entry(name, color))

    # levels use the colors after the curves
    for number, (name, level) in enumerate(heights.items(), len(shown)):
        ends = plot.project([(x, level) for x in plot.xs])
        shapes.append(polyline(ends, shade(number), width=1.3, dashed=True))
        legend.append(_legend_entry(f"{name} {short(level)}", shade(number), mark="level"))

    entries = " ".join(legend) if len(legend) > 1 else ""
    caption = f"<figcaption><b>{escape(chart.title)}</b> {entries}</figcaption>"
    # (0, 0) is at the top left
    head = f'<svg role=img viewBox="0 0 {_SIZE[0]} {_SIZE[1]}">'
    title = f"<title>{escape(describe_chart(chart))}</title>"
    return f"<figure>{caption}{head}{title}{''.join(shapes)}</svg></figure>"


def _legend_entry(name: str, color: str, mark: str = "line") -> str:
    return f'<small><i class={mark} style="border-color:{color}"></i>{escape(name)}</small>'


def thin_points(points: Points) -> list[tuple[float, float]]:
    """Return the finite points; more than 400 are averaged in groups of neighbors."""
    finite = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(finite) / _POINTS))
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    means = (math.fsum(y for _, y in group) / len(group) for group in groups)
    return [(group[-1][0], mean) for group, mean in zip(groups, means, strict=True)]


def running_mean(values: Sequence[float]) -> list[float]:
    """Return the mean around each value, over a twentieth of all values; fewer at the ends."""
    half = max(1, round(_SMOOTHED * len(values) / 2))
    last = len(values) - 1
    reaches = (min(half, index, last - index) for index in range(len(values)))
    windows = (values[index - reach : index + reach + 1] for index, reach in enumerate(reaches))
    return [math.fsum(window) / len(window) for window in windows]


def short(value: float) -> str:
    """Return a number as axes show it: 1.25e-4, 0.005, 4,096, 20k, 1.5M, 3e15."""
    # round first: 9999.9 becomes 10k, and 0.0009999 becomes 0.001
    value = float(f"{value:.{4 if 1e-3 <= abs(value) < 1e4 else 3}g}")
    size = abs(value)
    if 1e4 <= size < 1e12:
        unit, letter = next(
            pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if size >= pair[0]
        )
        return f"{value / unit:g}{letter}"
    if size and not 1e-3 <= size < 1e12:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,g}"


def ticks(low: float, high: float) -> list[float]:
    """Return three to eight round values in a range, 1, 2, 2.5 or 5 times a power of ten apart."""
    # at most eight ticks; the next step is at most twice as wide, hence at least three
    least = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least)
    return [
        number * step
        for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def shade(number: int) -> str:
    """Return the color of a series; after eight, colors repeat."""
    return f"var(--c{number % SHADES})"


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = _FONT,
    color: str = "currentColor",
    anchor: str = "start",
) -> str:
    """Return a text with its baseline at y and its `anchor` (start, middle or end) at x."""
    at = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {at} style="font-size:{size:g}px;fill:{color}">{escape(content)}</text>'


def polyline(
    points: Points, color: str, *, width: float = 1.4, opacity: float = 1.0, dashed: bool = False
) -> str:
    """Return a line through points."""
    style = f"fill:none;stroke:{color};stroke-width:{width:g}"
    style += f";stroke-opacity:{opacity:g}" if opacity < 1 else ""
    style += ";stroke-dasharray:4 3" if dashed else ""
    through = " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M {through}" style="{style}"/>'


def dot(x: float, y: float, color: str, radius: float = 2.3) -> str:
    """Return a filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" style="fill:{color}"/>'


class Plot:
    """Axes inside a box that cover some values; `x_name` is written below the horizontal axis."""

    def __init__(
        self, xs: Sequence[float], ys: Sequence[float], x_name: str, box: Box = _BOX
    ) -> None:
        self.box = box
        self.xs = _limits(xs, 0.0)
        self.ys = _limits(ys, _AIR)
        self._x_name = x_name

    def x(self, value: float) -> float:
        """Return the picture coordinate of a value of the horizontal axis."""
        (left, _, right, _), (low, high) = self.box, self.xs
        return left + (right - left) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Return the picture coordinate of a value of the vertical axis."""
        (_, top, _, bottom), (low, high) = self.box, self.ys
        return bottom - (bottom - top) * (value - low) / (high - low)

    def project(self, points: Points) -> list[tuple[float, float]]:
        """Return points (x, y) in picture coordinates."""
        return [(self.x(x), self.y(y)) for x, y in points]

    def y_axis(self) -> str:
        """Return horizontal grid lines and their numbers."""
        left, _, right, _ = self.box
        shapes = []
        for value, at in ((value, self.y(value)) for value in ticks(*self.ys)):
            shapes.append(polyline([(left, at), (right, at)], LINE, width=0.6))
            shapes.append(text(left - 5, at + 3.5, short(value), color=MUTED, anchor="end"))
        return "".join(shapes)

    def x_axis(self) -> str:
        """Return the line at the bottom, its numbers and its name."""
        left, _, right, bottom = self.box
        line = polyline([(left, bottom), (right, bottom)], LINE, width=1)
        values = [(self.x(value), bottom + 14, short(value)) for value in ticks(*self.xs)]
        named = [*values, ((left + right) / 2, bottom + 29, self._x_name)]
        return line + "".join(text(*each, color=MUTED, anchor="middle") for each in named)


def _limits(values: Sequence[float], air: float) -> tuple[float, float]:
    """Return the range of an axis with free space around it; a single value is widened."""
    low = min(values)
    high = max(values)
    margin = air * (high - low) if low < high else abs(low) / 20 or 0.5
    return low - margin, high + margin
