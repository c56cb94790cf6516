"""Draw the charts of report pages: bars, funnels, lines, areas, histograms.

Every chart has a text alternative for screen readers, and shows its values under the pointer. Equal data give equal
bytes.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

from clozeline.report import svg
from clozeline.report.axis_units import short
from clozeline.report.hover import draw_columns
from clozeline.report.html_page import escape, visible
from clozeline.report.svg import LINE, MUTED, WIDTH, Plot, shade

# Columns of text that fit below a plot.
_LABEL_CHARACTERS: Final = 42
# Numbers below a histogram, at most.
_TICKS: Final = 5
_ROW: Final = 28
_STEP: Final = 44
_MAX_ROWS: Final = 20
# Characters of a name and a figure that fit on one line of a picture.
_LINE_CHARACTERS: Final = 50
# Points of a line, at most.
_POINTS: Final = 400
# A line of up to this many points shows each of them.
_MARKED: Final = 24
# Share of a smooth line's points that one mean is of.
_SMOOTHED: Final = 0.05
# Bars that a histogram has room for, at least: a few bars do not fill the width.
_WIDEST: Final = 8


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its length, and the figure next to the name."""

    name: str
    value: float
    label: str
    full: float | None = field(default=None, compare=False)
    """value of a bar of the full width; None: the longest bar has it"""


@dataclass(frozen=True)
class Step:
    """One step of a funnel; only counts of the same unit have comparable widths."""

    name: str
    count: int
    unit: str
    note: str = ""

    @property
    def label(self) -> str:
        """The figure next to the name."""
        return f"{self.count:,}{f' · {self.note}' if self.note else ''}"


@dataclass(frozen=True)
class Series:
    """A named line: points (x, y), sorted by x."""

    name: str
    points: Sequence[tuple[float, float]]
    smooth: bool = False
    """draw the running mean of a long line, and the line itself pale"""


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return horizontal bars in the order given; "" where there are none."""
    longest = max((row.value for row in rows), default=0) or 1
    parts = [min(1.0, row.value / (row.full or longest)) for row in rows]
    boxes = [[(0.0, WIDTH, 6, LINE), (0.0, WIDTH * part, 6, shade(0))] for part in parts]
    return _draw_box_rows(title, [(row.name, row.label) for row in rows], boxes, _ROW)


def shares(
    counts: Mapping[str, int], total: int | None = None, show: Callable[[int], str] = "{:,}".format
) -> list[Bar]:
    """Return a bar for each count with its share, largest first; where there are many, the smallest share one bar.

    Counts of 0 are dropped; `total` is the count that is 100 % and the full width, by default their sum. `show` writes
    a count.
    """
    items = sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))
    if len(items) > _MAX_ROWS:
        rest = items[_MAX_ROWS - 1 :]
        items = [*items[: _MAX_ROWS - 1], (f"{len(rest):,} others", sum(count for _, count in rest))]
    total = total or sum(counts.values())
    return [Bar(name, count, f"{show(count)} · {100 * count / total:.1f} %", total) for name, count in items]


def funnel(title: str, steps: Sequence[Step]) -> str:
    """Return what is left after each step, centered; a step of another unit than the first is an outline."""
    boxes, width = [], 0.0
    for step in steps:
        comparable = step.unit == steps[0].unit
        width = WIDTH * step.count / max(1, steps[0].count) if comparable else width
        boxes.append([((WIDTH - width) / 2, width, 20, shade(0) if comparable else "none", shade(0))])
    return _draw_box_rows(title, [(step.name, step.label) for step in steps], boxes, _STEP)


def lines(
    title: str, series: Sequence[Series], x_name: str, *, levels: Mapping[str, float] | None = None,
    x_scale: Literal["linear", "log"] = "linear",
) -> str:  # fmt: skip
    """Return lines on shared axes; "" where no series has a finite point.

    Eight series are told apart by color; long ones are thinned. `levels` are dashed horizontal lines, by name.
    """
    shown = [Series(line.name, points, line.smooth) for line in series if (points := thin_points(line.points))]
    heights = [(name, level) for name, level in (levels or {}).items() if math.isfinite(level)]
    if not shown:
        return ""
    xs, ys = zip(*(point for line in shown for point in line.points), strict=True)
    counted = all(float(x).is_integer() for x in xs)
    every = [*ys, *(level for _, level in heights)]
    plot = Plot(xs, every, clip_label(x_name, _LABEL_CHARACTERS), log=x_scale == "log", integers=(counted, False))
    shapes = [plot.axes()]
    for number, (_, level) in enumerate(heights, len(shown)):
        ends = plot.place([(plot.x.low, level), (plot.x.high, level)])
        shapes.append(svg.polyline(ends, shade(number), width=1.3, dashed=True))
    smoothed = [line for line in shown if line.smooth and len(line.points) > _MARKED]
    for number, line in enumerate(shown):
        points = plot.place(line.points)
        if line in smoothed:
            shapes.append(svg.polyline(points, shade(number), width=0.8, opacity=0.35))
            means = running_mean([y for _, y in points])
            points = [(x, mean) for (x, _), mean in zip(points, means, strict=True)]
        shapes.append(svg.polyline(points, shade(number)))
        if len(points) <= _MARKED:
            shapes += (svg.dot(x, y, shade(number)) for x, y in points)
    curves = [(shade(number), line.points) for number, line in enumerate(shown)]
    shapes.append(draw_columns(curves, plot.x, plot.box, short))
    named = [f"{name} {short(level)}" for name, level in heights]
    told = [f"{line.name} from {short(line.points[0][1])} to {short(line.points[-1][1])}" for line in shown]
    keys = [_key(number, line.name) for number, line in enumerate(shown)]
    keys += [_key(number, name, dashed=True) for number, name in enumerate(named, len(shown))]
    keys = keys if len(keys) > 1 else []
    if smoothed:
        keys.append(f"<small>{', '.join(escape(line.name) for line in smoothed)}: pale, and its running mean</small>")
    return figure(title, [*told, *named], plot.svg(shapes), keys)


def areas(title: str, series: Sequence[Series], x_name: str) -> str:
    """Return areas on top of each other, at the x of the first series; "" where there are no points."""
    curves = [thin_points(line.points) for line in series]
    if not curves or not curves[0]:
        return ""
    xs, heights = [x for x, _ in curves[0]], [[y for _, y in curve] for curve in curves]
    tops = list(accumulate(heights, lambda below, own: [low + high for low, high in zip(below, own, strict=True)]))
    plot = Plot(xs, [0.0, *tops[-1]], x_name, integers=(all(float(x).is_integer() for x in xs), False), floor=True)
    shapes = [plot.axes()]
    for number, (below, top) in enumerate(zip([[0.0] * len(xs), *tops], tops, strict=False)):
        edge = [*zip(xs, top, strict=True), *reversed(list(zip(xs, below, strict=True)))]
        shapes.append(svg.polygon(plot.place(edge), shade(number)))
    shapes.append(
        draw_columns([(shade(number), curve) for number, curve in enumerate(curves)], plot.x, plot.box, short)
    )
    sums = [math.fsum(ys) for ys in heights]
    names = [f"{line.name} {100 * size / (sum(sums) or 1):.1f} %" for line, size in zip(series, sums, strict=True)]
    return figure(title, names, plot.svg(shapes), [_key(*pair) for pair in enumerate(names)])


def histogram(title: str, edges: Sequence[int], counts: Sequence[int], x_name: str) -> str:
    """Return bars of equal width over ranges of integers; "" where nothing was counted.

    `edges` are the first value of each bar, and the end of the last; ranges may widen.
    """
    if not any(counts):
        return ""
    slots = max(len(counts), _WIDEST)
    plot = Plot([-0.6, slots - 0.4], [0, *counts], x_name, integers=(True, True), floor=True)
    every = math.ceil(len(counts) / _TICKS)
    shapes = [plot.axes([(number, short(edges[number])) for number in range(0, len(counts), every)])]
    ranges = [f"{first:,}" if end == first + 1 else f"{first:,} to {end - 1:,}" for first, end in pairwise(edges)]
    for number, (count, name) in enumerate(zip(counts, ranges, strict=True)):
        left, top = plot.x(number - 0.43), plot.y(count)
        box = (left, top, plot.x(number + 0.43) - left, plot.y(0) - top)
        shapes.append(svg.rectangle(*box, shade(0), tip=f"{name}: {count:,}"))
    most = ranges[max(range(len(counts)), key=counts.__getitem__)]
    told = f"{sum(counts):,} from {edges[0]:,} to {edges[-1] - 1:,}, most of them {most}"
    return figure(title, [told], plot.svg(shapes))


def thin_points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the finite points; where there are more than 400, means of equally many neighbors."""
    finite = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(finite) / _POINTS))
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    return [(group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in groups]


def running_mean(values: Sequence[float]) -> list[float]:
    """Return the mean around each value, of as many before as after it: a twentieth of all, fewer at the ends."""
    half, last = max(1, round(_SMOOTHED * len(values) / 2)), len(values) - 1
    reaches = (min(half, index, last - index) for index in range(len(values)))
    windows = (values[index - reach : index + reach + 1] for index, reach in enumerate(reaches))
    return [math.fsum(window) / len(window) for window in windows]


def _draw_box_rows(
    title: str, labels: Sequence[tuple[str, str]], boxes: Sequence[Sequence[tuple[Any, ...]]], height: int
) -> str:
    """Return rows of a name on the left, a figure on the right, and boxes below both.

    The label is above its bar, so that names of any length are legible at any width. A box is its left edge, width,
    thickness, color and edge color (default: none).
    """
    shapes = []
    for number, ((name, value), row) in enumerate(zip(labels, boxes, strict=True)):
        top = height * number
        shapes.append(svg.text(0, top + 11, clip_label(name, _LINE_CHARACTERS - len(value)), size=11))
        figures = clip_label(value, _LINE_CHARACTERS)
        shapes.append(svg.text(WIDTH, top + 11, figures, size=11, color=MUTED, anchor="end"))
        for x, width, thickness, color, *edge in row:
            shapes.append(svg.rectangle(x, top + 16, width, thickness, color, edge="".join(edge)))
    told = [f"{name} {value}" for name, value in labels]
    return figure(title, told, svg.picture(height * len(labels), shapes)) if labels else ""


def figure(title: str, told: Sequence[str], drawn: str, keys: Sequence[str] = ()) -> str:
    """Return a picture with its title and keys above it, and what it says in words (`told`) for screen readers."""
    described = f"{title}: {'; '.join(told)}"
    caption = f"<figcaption><b>{escape(title)}</b> {' '.join(keys)}</figcaption>"
    return f"<figure>{caption}{drawn.replace('>', f'><title>{escape(described)}</title>', 1)}</figure>"


def _key(number: int, name: str, *, dashed: bool = False) -> str:
    color = shade(number)
    mark = f'<i class=level style="border-color:{color}"></i>' if dashed else f'<i style="background:{color}"></i>'
    return f"<small>{mark}{escape(name)}</small>"


def clip_label(text: str, limit: int) -> str:
    """Return text on one line, cut to `limit` columns; characters of East Asian scripts take two."""
    shown, width = "", 0
    for character in " ".join(visible(text).split()):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > limit:
            return f"{shown[:-1]}…"
        shown += character
    return shown
