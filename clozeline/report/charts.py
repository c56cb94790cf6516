"""Draw the charts of report pages as SVG: bars, funnels, lines, areas, histograms.

matplotlib draws; text stays text, colors are variables of the page, and every chart has a text alternative for
screen readers. A picture is 340 units wide, so that its text is legible on a phone, and scales with its box. Equal data
give equal bytes. matplotlib is imported when the first picture is drawn: a process that draws none pays nothing.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from clozeline.report.axis_units import scale_axis, short
from clozeline.report.hover import draw_columns
from clozeline.report.html_page import escape, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH: Final = 340
_PLOT_HEIGHT: Final = 190
# Left, right, top and bottom of a plot, in units.
_MARGINS: Final = (50, 12, 20, 36)
# Columns of text that fit below a plot.
_LABEL_CHARACTERS: Final = 42
_TICKS: Final = 5
SHADES: Final = 8
"""Colors of series that are told apart."""

# Placeholder colors in the SVG: variables of the page's style replace them.
_INK: Final = "#000001"
MUTED: Final = "#000002"
LINE: Final = "#000003"
_VARIABLES: Final = {_INK: "currentColor", MUTED: "var(--muted)", LINE: "var(--line)"} | {
    f"#00000{number + 4:x}": f"var(--c{number})" for number in range(SHADES)
}
_TEXT_PARAMETERS: Final[Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "clozeline",
    "font.family": "DejaVu Sans",  # it comes with matplotlib: the layout is the same on every machine
}
_PARAMETERS: Final[Any] = {
    "font.size": 10.5, "text.parse_math": False, "text.color": _INK,
    "axes.edgecolor": LINE, "axes.labelcolor": MUTED, "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True,
    "axes.spines.left": False, "axes.spines.right": False, "axes.spines.top": False, "axes.xmargin": 0.01,
    "grid.color": LINE, "grid.linewidth": 0.6, "xtick.bottom": False, "ytick.left": False,
    "xtick.labelcolor": MUTED, "ytick.labelcolor": MUTED,
}  # fmt: skip
_UNWANTED: Final = re.compile(r' (id|clip-path)="[^"]*"|font-family: [^;"]*;? ?| transform="rotate\(-0 [^"]*"')

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

Paint = Callable[["Axes"], None]


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


def shares(counts: Mapping[str, int], total: int | None = None) -> list[Bar]:
    """Return a bar for each count with its share, largest first; where there are many, the smallest share one bar.

    Counts of 0 are dropped; `total` is the count that is 100 % and the full width, by default their sum.
    """
    items = sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))
    if len(items) > _MAX_ROWS:
        rest = items[_MAX_ROWS - 1 :]
        items = [*items[: _MAX_ROWS - 1], (f"{len(rest):,} others", sum(count for _, count in rest))]
    total = total or sum(counts.values())
    return [Bar(name, count, f"{count:,} · {100 * count / total:.1f} %", total) for name, count in items]


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

    def paint(axes: Axes) -> None:
        for number, (_, level) in enumerate(heights, len(shown)):
            axes.axhline(level, color=shade(number), linewidth=1.3, dashes=(4, 3), clip_on=False)
        for number, line in enumerate(shown):
            xs, ys = zip(*line.points, strict=True)
            if line.smooth and len(xs) > _MARKED:
                axes.plot(xs, ys, color=shade(number), linewidth=0.8, alpha=0.35, clip_on=False)
                ys = tuple(running_mean(ys))
            axes.plot(xs, ys, color=shade(number), linewidth=1.4, clip_on=False)
            if len(xs) <= _MARKED:
                axes.scatter(xs, ys, s=16, color=shade(number), linewidths=0, zorder=3, clip_on=False)

    if not shown:
        return ""
    named = [f"{name} {short(level)}" for name, level in heights]
    told = [f"{line.name} from {short(line.points[0][1])} to {short(line.points[-1][1])}" for line in shown]
    keys = [_key(number, line.name) for number, line in enumerate(shown)]
    keys += [_key(number, name, dashed=True) for number, name in enumerate(named, len(shown))]
    keys = keys if len(keys) > 1 else []
    if smoothed := [line for line in shown if line.smooth and len(line.points) > _MARKED]:
        keys.append(f"<small>{', '.join(escape(line.name) for line in smoothed)}: pale, and its running mean</small>")
    return figure(title, [*told, *named], _plot(x_name, paint, x_scale, hover=shown), keys)


def areas(title: str, series: Sequence[Series], x_name: str) -> str:
    """Return areas on top of each other, at the x of the first series; "" where there are no points."""
    points = [thin_points(line.points) for line in series]
    if not points or not points[0]:
        return ""
    heights = [[y for _, y in curve] for curve in points]

    def paint(axes: Axes) -> None:
        colors = [shade(number) for number in range(len(series))]
        axes.stackplot([x for x, _ in points[0]], *heights, colors=colors, linewidth=0)
        axes.set_ylim(0)

    sums = [math.fsum(ys) for ys in heights]
    names = [f"{line.name} {100 * size / (sum(sums) or 1):.1f} %" for line, size in zip(series, sums, strict=True)]
    return figure(title, names, _plot(x_name, paint), [_key(*pair) for pair in enumerate(names)])


def histogram(title: str, edges: Sequence[int], counts: Sequence[int], x_name: str) -> str:
    """Return bars of equal width over ranges of integers; "" where nothing was counted.

    `edges` are the first value of each bar, and the end of the last; ranges may widen.
    """
    if not any(counts):
        return ""

    def paint(axes: Axes) -> None:
        axes.bar(range(len(counts)), counts, width=0.86, color=shade(0))
        axes.set_xlim(-0.6, max(len(counts), _WIDEST) - 0.4)
        every = math.ceil(len(counts) / _TICKS)
        axes.set_xticks(range(0, len(counts), every), [short(edge) for edge in edges[: len(counts) : every]])

    highest = max(range(len(counts)), key=counts.__getitem__)
    first, last = edges[highest], edges[highest + 1] - 1
    most = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    told = f"{sum(counts):,} from {edges[0]:,} to {edges[-1] - 1:,}, most of them {most}"
    return figure(title, [told], _plot(x_name, paint, integers=True))


def thin_points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the finite points; where there are more than 400, means of equally many neighbors."""
    finite = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(finite) / _POINTS))
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    return [(group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in groups]


def running_mean(values: Sequence[float]) -> list[float]:
    """Return the mean around each value, of as many before as after it: a twentieth of all, fewer at the ends."""
    half, last = max(1, round(_SMOOTHED * len(values) / 2)), len(values) - 1
    reaches = (min(half, place, last - place) for place in range(len(values)))
    windows = (values[place - reach : place + reach + 1] for place, reach in enumerate(reaches))
    return [math.fsum(window) / len(window) for window in windows]


def shade(number: int) -> str:
    """Return the color of series `number`; after eight they repeat."""
    return f"#00000{number % SHADES + 4:x}"


def canvas(height: int, paint: Paint) -> str:
    """Return the SVG of what `paint` draws in units, (0, 0) at the top left, without axes."""

    def draw(axes: Axes) -> None:
        axes.set_position((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(height, 0)
        paint(axes)

    return _svg(height, draw)


def render_svg(width: float, height: float, parameters: Any, draw: Callable[[Figure], None]) -> str:
    """Return matplotlib's SVG of a figure of some inches; equal data give equal bytes, whatever the user has set."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in a script that DejaVu lacks: the browser has a font for it
        mpl.rcdefaults()  # a user's own settings must not change the picture
        mpl.rcParams.update({**_TEXT_PARAMETERS, **parameters})
        drawn = Figure(figsize=(width, height))
        draw(drawn)
        stream = io.StringIO()
        drawn.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return stream.getvalue()


def _draw_box_rows(
    title: str, labels: Sequence[tuple[str, str]], boxes: Sequence[Sequence[tuple[Any, ...]]], height: int
) -> str:
    """Return rows of a name on the left, a figure on the right, and boxes below both.

    The label is above its bar, so that names of any length are legible at any width. A box is its left edge, width,
    thickness, color and edge color (default: none).
    """

    def paint(axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        for number, ((name, value), row) in enumerate(zip(labels, boxes, strict=True)):
            top = height * number
            axes.text(0, top + 11, clip_label(name, _LINE_CHARACTERS - len(value)), fontsize=11)
            shown = clip_label(value, _LINE_CHARACTERS)
            axes.text(WIDTH, top + 11, shown, fontsize=11, color=MUTED, horizontalalignment="right")
            for x, width, thickness, color, *edge in row:
                style = {"facecolor": color, "edgecolor": edge[0] if edge else "none", "clip_on": False}
                axes.add_patch(Rectangle((x, top + 16), width, thickness, **style))

    told = [f"{name} {value}" for name, value in labels]
    return figure(title, told, canvas(height * len(labels), paint)) if labels else ""


def figure(title: str, told: Sequence[str], svg: str, keys: Sequence[str] = ()) -> str:
    """Return a picture with its title and keys above it, and what it says in words (`told`) for screen readers."""
    described = f"{title}: {'; '.join(told)}"
    caption = f"<figcaption><b>{escape(title)}</b> {' '.join(keys)}</figcaption>"
    return f"<figure>{caption}{svg.replace('>', f'><title>{escape(described)}</title>', 1)}</figure>"


def _key(number: int, name: str, *, dashed: bool = False) -> str:
    color = _VARIABLES[shade(number)]
    mark = f'<i class=level style="border-color:{color}"></i>' if dashed else f'<i style="background:{color}"></i>'
    return f"<small>{mark}{escape(name)}</small>"


def _plot(
    x_name: str, paint: Paint, x_scale: Literal["linear", "log"] = "linear", *, integers: bool = False,
    hover: Sequence[Series] = (),
) -> str:  # fmt: skip
    """Return the SVG of what `paint` draws on axes with few, short numbers, and the values under the pointer.

    `integers`: on the vertical axis, too.
    """
    left, right, top, bottom = _MARGINS
    box = (left, top, WIDTH - right, _PLOT_HEIGHT - bottom)
    limits: list[tuple[float, float]] = []

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator, NullFormatter

        width, height = box[2] - box[0], box[3] - box[1]
        axes.set_position((left / WIDTH, bottom / _PLOT_HEIGHT, width / WIDTH, height / _PLOT_HEIGHT))
        axes.set_xscale(x_scale)
        if x_scale == "linear":
            axes.xaxis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10], integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10], integer=integers))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        paint(axes)
        limits[:] = axes.get_xlim(), axes.get_ylim()
        # a unit is written once per axis, not at every number
        x_unit = scale_axis(axes.xaxis, (1.0, 1.0) if x_scale == "log" else limits[0])
        y_unit = scale_axis(axes.yaxis, limits[1])
        axes.set_xlabel(clip_label(f"{x_name}, in {x_unit}" if x_unit else x_name, _LABEL_CHARACTERS))
        axes.text(0, 1 + 7 / height, f"in {y_unit}" if y_unit else "", color=MUTED, transform=axes.transAxes)

    def to_unit(x: float) -> float:
        (first, last), scale = limits[0], math.log if x_scale == "log" else float
        return box[0] + (box[2] - box[0]) * (scale(x) - scale(first)) / ((scale(last) - scale(first)) or 1)

    svg = _svg(_PLOT_HEIGHT, draw)
    curves = [(_VARIABLES[shade(number)], line.points) for number, line in enumerate(hover)]
    return svg.replace("</svg>", f"{draw_columns(curves, to_unit, box, short)}</svg>") if curves else svg


def clip_label(text: str, limit: int) -> str:
    """Return text on one line, cut to `limit` columns; characters of East Asian scripts take two."""
    shown, width = "", 0
    for character in " ".join(visible(text).split()):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > limit:
            return f"{shown[:-1]}…"
        shown += character
    return shown


def _svg(height: int, paint: Paint) -> str:
    def draw(figure: Figure) -> None:
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        paint(axes)

    # as part of a page: no ids, no style sheet, no fixed size, the page's colors
    svg = render_svg(WIDTH / 72, height / 72, _PARAMETERS, draw)
    inside = svg[svg.index(">", svg.index("<svg")) + 1 :]
    marks = dict(re.findall(r'<path id="([^"]*)" d="([^"]*)"', inside))

    def adapt(match: re.Match[str]) -> str:
        tag = _UNWANTED.sub("", re.sub(r"\s+", " ", match[0]))
        if used := re.match(r'<use xlink:href="#([^"]*)" x="([^"]*)" y="([^"]*)"', tag):
            mark = " ".join(marks[used[1]].split())  # a reference to a mark becomes the mark itself
            tag = tag.replace(used[0], f'<path d="{mark}" transform="translate({used[2]} {used[3]})"')
        return re.sub("#00000[1-9ab]", lambda color: _VARIABLES[color[0]], tag)

    inside = re.sub(r"<(metadata|defs).*?</\1>", "", inside, flags=re.DOTALL)
    inside = re.sub(r"<[^>]*>", adapt, inside)  # texts between tags stay as they are
    inside = re.sub(r">\s+<", "><", inside).strip()
    return f'<svg role=img viewBox="0 0 {WIDTH} {height}">{inside}'
