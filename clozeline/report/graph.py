"""Draw what was made from what: a list of nodes, with lines from each to those it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clozeline.report.charts import MUTED, SHADES, canvas, clip_label, figure, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW: Final = 34
# Width of the lines on the left, and the distance between two of them.
_GUTTER: Final = 70
_LANE: Final = 9
_LANES: Final = 7
# Lines leave a node below its middle, and reach one above it.
_APART: Final = 4
_CHARACTERS: Final = 40
# A label is below its name, so that neither is cut.
_NAME_UP, _LABEL_DOWN = 1, 11


@dataclass(frozen=True)
class Node:
    """A row of the drawing; `parents` are names of nodes above it, others are ignored."""

    name: str
    label: str
    parents: tuple[str, ...] = ()
    group: int = 0
    """nodes of a group share a color"""


def graph(title: str, nodes: Sequence[Node]) -> str:
    """Return the nodes from top to bottom, in the order given, and a line from each to its parents; "" for none.

    The text alternative names the parents of every node.
    """
    rows = {node.name: row for row, node in enumerate(nodes)}
    children: dict[int, list[int]] = {}  # of each row that has some, below it
    for row, node in enumerate(nodes):
        for parent in dict.fromkeys(node.parents):
            if rows.get(parent, row) < row:
                children.setdefault(rows[parent], []).append(row)
    lanes = _choose_lanes({parent: max(below) for parent, below in children.items()})

    def paint(axes: Axes) -> None:
        for parent, below in children.items():
            x, top = _GUTTER - _LANE * lanes[parent], _middle(parent) + _APART
            color = shade(lanes[parent] % SHADES)
            for row in below:
                bottom = _middle(row) - _APART
                axes.plot([_GUTTER, x, x, _GUTTER], [top, top, bottom, bottom], color=color, linewidth=1.2)
        for row, node in enumerate(nodes):
            axes.scatter([_GUTTER], [_middle(row)], s=40, color=shade(node.group % SHADES), linewidths=0, zorder=3)
            axes.text(_GUTTER + 10, _middle(row) + _NAME_UP, clip_label(node.name, _CHARACTERS), fontsize=11)
            label = clip_label(node.label, _CHARACTERS)
            axes.text(_GUTTER + 10, _middle(row) + _LABEL_DOWN, label, fontsize=9, color=MUTED)

    told = [f"{node.name} from {', '.join(node.parents) or 'outside'}" for node in nodes]
    return figure(title, told, canvas(_ROW * len(nodes), paint)) if nodes else ""


def _choose_lanes(ends: Mapping[int, int]) -> dict[int, int]:
    """Return a lane, from 1 on, for the line from each row to its last child; lines that meet have different ones."""
    lanes: dict[int, int] = {}
    for start, end in sorted(ends.items(), key=lambda item: item[1] - item[0]):
        met = {lanes[other] for other in lanes if other < end and start < ends[other]}
        free = next((lane for lane in range(1, _LANES + 1) if lane not in met), _LANES)
        lanes[start] = free
    return lanes


def _middle(row: int) -> float:
    return _ROW * (row + 0.5)
