"""Bars with their names above them, so that names of any length are legible at any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pipeline.charts.drawing import LINE, MUTED, WIDTH, canvas, figure, label, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bar", "Step", "bars", "funnel", "shares"]

_ROW: Final = 28
_STEP: Final = 44
_MAX_ROWS: Final = 20
_LINE_CHARACTERS: Final = 50
"""Characters of a name and a figure that fit on one line of a picture."""


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its length, and the figure beside the name."""

    name: str
    value: float
    label: str


@dataclass(frozen=True)
class Step:
    """One step of a funnel. Only counts of the same unit have comparable widths."""

    name: str
    count: int
    unit: str
    note: str = ""

    @property
    def label(self) -> str:
        """The figure beside the name."""
        return f"{self.count:,}{f' · {self.note}' if self.note else ''}"


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return horizontal bars in the order given; "" where there are none."""
    longest = max((row.value for row in rows), default=0) or 1

    def paint(axes: Axes) -> None:
        for number, row in enumerate(rows):
            top = _ROW * number
            _line(axes, top + 11, row.name, row.label)
            _box(axes, top + 16, 0, WIDTH, 6, LINE)
            _box(axes, top + 16, 0, WIDTH * row.value / longest, 6, shade(0))

    described = "; ".join(f"{row.name} {row.label}" for row in rows)
    return figure(title, described, canvas(_ROW * len(rows), paint)) if rows else ""


def shares(counts: Mapping[str, int], total: int | None = None) -> list[Bar]:
    """Return a bar for each count with its share, largest first; where there are many, the smallest share one bar.

    Args:
        counts: by name; counts of 0 are left out.
        total: what 100 % is; default: the sum of the counts.
    """
    items = sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))
    if len(items) > _MAX_ROWS:
        rest = items[_MAX_ROWS - 1 :]
        items = [*items[: _MAX_ROWS - 1], (f"{len(rest):,} others", sum(count for _, count in rest))]
    whole = total or sum(counts.values())
    return [Bar(name, count, f"{count:,} · {100 * count / whole:.1f} %") for name, count in items]


def funnel(title: str, steps: Sequence[Step]) -> str:
    """Return what is left after each step, centred; a step of another unit than the first is an outline."""
    widths: list[float] = []
    for step in steps:
        comparable = step.unit == steps[0].unit
        widths.append(WIDTH * step.count / max(1, steps[0].count) if comparable else widths[-1])

    def paint(axes: Axes) -> None:
        for number, (step, width) in enumerate(zip(steps, widths, strict=True)):
            top, outline = _STEP * number, step.unit != steps[0].unit
            _line(axes, top + 11, step.name, step.label)
            _box(axes, top + 16, (WIDTH - width) / 2, width, 20, "none" if outline else shade(0), shade(0))

    described = "; ".join(f"{step.name} {step.label}" for step in steps)
    return figure(title, described, canvas(_STEP * len(steps), paint)) if steps else ""


def _line(axes: Axes, y: float, name: str, value: str) -> None:
    axes.text(0, y, label(name, _LINE_CHARACTERS - len(value)), fontsize=11)
    axes.text(WIDTH, y, label(value, _LINE_CHARACTERS), fontsize=11, color=MUTED, horizontalalignment="right")


def _box(axes: Axes, y: float, x: float, width: float, height: float, colour: str, edge: str = "none") -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=edge, clip_on=False))
