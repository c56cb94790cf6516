"""Values of a chart under the pointer, without a script: columns that show their text while hovered or tapped."""

import bisect
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

# Columns of a chart, at most: each is about 4 mm wide on a phone.
_COLUMNS: Final = 48

STYLE: Final = """
.h rect{fill:transparent}.h path{stroke:var(--muted);stroke-width:.7}.h text{font-size:10.5px;fill:var(--muted)}
.h path,.h text{visibility:hidden}.h:hover path,.h:hover text{visibility:visible}
"""
"""Rules of the page that hide a column's text until the pointer is on it."""

Points = Sequence[tuple[float, float]]


def draw_columns(
    curves: Sequence[tuple[str, Points]], to_unit: Callable[[float], float], box: tuple[float, float, float, float],
    name: Callable[[float], str],
) -> str:  # fmt: skip
    """Return the columns as SVG.

    A column shows its x and, for each curve with a point in it, the last value, at the top right of the chart.

    Args:
        curves: color as CSS, and points sorted by x.
        to_unit: position in the picture of an x.
        box: left, top, right and bottom of the plot, in units of the picture.
        name: text of a number.
    """
    left, top, right, bottom = box
    xs = sorted({x for _, points in curves for x, _ in points})
    if len(xs) > _COLUMNS:
        xs = [xs[round(number * (len(xs) - 1) / (_COLUMNS - 1))] for number in range(_COLUMNS)]
    positions = [to_unit(x) for x in xs]
    edges = [left, *((here + there) / 2 for here, there in pairwise(positions)), right]
    drawn = []
    for number, (x, position) in enumerate(zip(xs, positions, strict=True)):
        first = xs[number - 1] if number else -math.inf
        values = [(color, value) for color, points in curves if (value := _last_value(points, first, x)) is not None]
        told = "".join(f' <tspan style="fill: {color}">{name(value)}</tspan>' for color, value in values)
        begin, width = edges[number], edges[number + 1] - edges[number]
        drawn.append(
            f'<g class=h><rect x="{begin:.1f}" y="{top:g}" width="{width:.1f}" height="{bottom - top:g}"/>'
            f'<path d="M {position:.1f} {top:g} V {bottom:g}"/>'
            f'<text x="{right:g}" y="{top - 6:g}" text-anchor="end">{name(x)}:{told}</text></g>'
        )
    return "".join(drawn)


def _last_value(points: Points, first: float, last: float) -> float | None:
    """Return the value at the largest x in (first, last]."""
    end = bisect.bisect_right(points, last, key=lambda point: point[0])
    return points[end - 1][1] if end and points[end - 1][0] > first else None
