"""Draw a measure over a quantity that grows, on a logarithmic axis, as one SVG for a page."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from clozeline.report.charts import Plot, dot, polyline, short, text

_COLORS: Final = ("#2a66c8", "#c0392b", "#7f8c8d", "#b9770e", "#1e8449", "#8e44ad")
_BOX: Final = (40.0, 12.0, 470.0, 230.0)


def draw_curves(
    title: str,
    x_name: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    levels: Mapping[str, float],
) -> str:
    """Return the SVG of lines (x, y) with dots, and of levels as dashed lines, by name.

    The name of a line stands at its last point, unless it is empty.
    """
    logs = {name: [(math.log10(x), y) for x, y in points] for name, points in lines.items()}
    points = [point for line in logs.values() for point in line]
    plot = Plot([x for x, _ in points], [*(y for _, y in points), *levels.values()], x_name, _BOX)
    left, _, right, bottom = _BOX
    shapes = [plot.y_axis(), polyline([(left, bottom), (right, bottom)], "#8886", width=1)]
    shapes += [
        text(plot.x(x), bottom + 14, short(10**x), anchor="middle") for x in {x for x, _ in points}
    ]
    shapes.append(text((left + right) / 2, bottom + 32, f"{x_name} (log)", anchor="middle"))
    colors = dict(zip([*logs, *levels], _COLORS * 3, strict=False))
    for name, line in logs.items():
        at = plot.project(line)
        shapes.append(polyline(at, colors[name], width=2))
        shapes += (dot(x, y, colors[name], 3) for x, y in at)
    for name, height in levels.items():
        ends = [(left, plot.y(height)), (right, plot.y(height))]
        shapes.append(polyline(ends, colors[name], dashed=True))

    # names of lines that are close stand below each other
    heights = {**levels, **{name: line[-1][1] for name, line in logs.items() if name}}
    below = 0.0
    for name, height in sorted(heights.items(), key=lambda one: -one[1]):
        below = max(below + 12, plot.y(height) + 4)
        shapes.append(text(475, below, f"{name} {short(height)}", color=colors[name]))

    told = [
        f"{name} {', '.join(f'{short(x)} {x_name} {short(y)}' for x, y in line)}".strip()
        for name, line in lines.items()
    ]
    style = "text{font:11px sans-serif;fill:#666}svg{--line:#8884;--muted:#777}"
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 270" '
        f'role="img"><title>{title}: {"; ".join(told)}</title>'
    )
    return f"{head}<style>{style}</style>{''.join(shapes)}</svg>\n"
