"""Draw SVG by hand: shapes, and plots with axes, in units of a picture 340 wide.

Text stays text, and colors are variables of the page. A picture scales with its box; 340 units are legible on a phone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from clozeline.report.axis_units import nice_ticks, power_ticks, short, unit_of
from clozeline.report.html_page import escape

WIDTH: Final = 340
INK: Final = "currentColor"
MUTED: Final = "var(--muted)"
LINE: Final = "var(--line)"
SHADES: Final = 8
"""Colors of series that are told apart."""
Points: TypeAlias = Sequence[tuple[float, float]]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom, in units."""

_FONT: Final = 10.5
_PLOT_HEIGHT: Final = 190
_BOX: Final = (50.0, 20.0, 328.0, 154.0)
# Share of the height that is free above and below the points.
_AIR: Final = 0.05


def shade(number: int) -> str:
    """Return the color of series `number`; after eight they repeat."""
    return f"var(--c{number % SHADES})"


def picture(height: float, shapes: Iterable[str], width: float = WIDTH) -> str:
    """Return the SVG of shapes; (0, 0) is at the top left."""
    return f'<svg role=img viewBox="0 0 {width:g} {height:g}">{"".join(shapes)}</svg>'


def text(x: float, y: float, content: str, *, size: float = _FONT, color: str = INK, anchor: str = "start") -> str:
    """Return a text whose baseline is at y; `anchor`: start, middle or end of it is at x."""
    at = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {at} style="font-size:{size:g}px;fill:{color}">{escape(content)}</text>' if content else ""


def rectangle(x: float, y: float, width: float, height: float, fill: str, *, edge: str = "", tip: str = "") -> str:
    """Return a rectangle; `tip` is what the pointer shows on it."""
    box = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
    style = f'style="fill:{fill}{f";stroke:{edge}" if edge else ""}"'
    return f"<rect {box} {style}>{f'<title>{escape(tip)}</title>' if tip else ''}</rect>"


def polyline(points: Points, color: str, *, width: float = 1.4, opacity: float = 1.0, dashed: bool = False) -> str:
    """Return a line through points."""
    style = f"fill:none;stroke:{color};stroke-width:{width:g}"
    style += f";stroke-opacity:{opacity:g}" if opacity < 1 else ""
    style += ";stroke-dasharray:4 3" if dashed else ""
    return f'<path d="{_trace(points)}" style="{style}"/>'


def polygon(points: Points, fill: str) -> str:
    """Return a filled area with these corners."""
    return f'<path d="{_trace(points)} Z" style="fill:{fill}"/>'


def dot(x: float, y: float, color: str, radius: float = 2.3) -> str:
    """Return a filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" style="fill:{color}"/>'


def _trace(points: Points) -> str:
    return "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)


@dataclass(frozen=True)
class Scale:
    """One axis: the units of a picture at which values are."""

    low: float
    high: float
    start: float
    """unit of `low`"""
    end: float
    """unit of `high`"""
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the unit of a value."""
        low, high, at = (math.log(number) if self.log else number for number in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (at - low) / ((high - low) or 1)

    def ticks(self, *, integers: bool) -> list[float]:
        """Return about five round values; `integers`: no others."""
        return power_ticks(self.low, self.high) if self.log else nice_ticks(self.low, self.high, integers=integers)


class Plot:
    """Axes with few, short numbers, inside a box; a unit is written once an axis, not at every number.

    Args:
        xs, ys: values that the axes cover.
        x_name: name below the horizontal axis.
        integers: fractions are no values of x, of y.
        floor: the vertical axis starts at 0.
        box: default: that of a chart.
    """

    def __init__(
        self, xs: Sequence[float], ys: Sequence[float], x_name: str, *, log: bool = False,
        integers: tuple[bool, bool] = (False, False), floor: bool = False,
        box: Box | None = None,
    ) -> None:  # fmt: skip
        self.box = left, top, right, bottom = box or _BOX
        low, high = _limits(xs, 0.0)
        self.x = Scale(low, high, left, right, log and low > 0)
        low, high = _limits(ys, _AIR)
        self.y = Scale(0.0 if floor else low, high, bottom, top)
        self._x_name, self._integers = x_name, integers

    def axes(self, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Return both axes; `x_ticks` are values with their texts, default: round numbers."""
        return self.y_axis() + self.x_axis(x_ticks)

    def y_axis(self) -> str:
        """Return horizontal grid lines, their numbers, and the unit above them."""
        left, top, right, _ = self.box
        unit, name = unit_of(self.y.low, self.y.high)
        shapes = [text(left, top - 7, f"in {name}" if name else "", color=MUTED)]
        for value in self.y.ticks(integers=self._integers[1]):
            at = self.y(value)
            shapes.append(polyline([(left, at), (right, at)], LINE, width=0.6))
            shapes.append(text(left - 5, at + 3.5, short(value / unit), color=MUTED, anchor="end"))
        return "".join(shapes)

    def x_axis(self, ticks: Sequence[tuple[float, str]] | None = None, *, grid: bool = False) -> str:
        """Return the line at the bottom, its numbers and its name; `grid`: vertical lines, too."""
        left, top, right, bottom = self.box
        name = self._x_name
        if ticks is None:
            unit, unit_name = (1.0, "") if self.x.log else unit_of(self.x.low, self.x.high)
            ticks = [(value, short(value / unit)) for value in self.x.ticks(integers=self._integers[0])]
            name += f", in {unit_name}" if unit_name else ""
        shapes = [polyline([(left, bottom), (right, bottom)], LINE, width=1)]
        for value, shown in ticks:
            at = self.x(value)
            shapes.append(polyline([(at, top), (at, bottom)], LINE, width=0.6) if grid else "")
            shapes.append(text(at, bottom + 14, shown, color=MUTED, anchor="middle"))
        shapes.append(text((left + right) / 2, bottom + 29, name, color=MUTED, anchor="middle"))
        return "".join(shapes)

    def place(self, points: Points) -> list[tuple[float, float]]:
        """Return points (x, y) in units."""
        return [(self.x(x), self.y(y)) for x, y in points]

    def svg(self, shapes: Iterable[str]) -> str:
        """Return the picture of a plot in the default box."""
        return picture(_PLOT_HEIGHT, shapes)


def _limits(values: Sequence[float], air: float) -> tuple[float, float]:
    """Return the range of an axis with some air; a range of one value is widened around it."""
    low, high = min(values), max(values)
    if low == high:
        half = abs(low) / 20 or 0.5
        return low - half, high + half
    return low - air * (high - low), high + air * (high - low)
