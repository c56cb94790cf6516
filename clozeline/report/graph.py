"""Draw what was made from what: a list of nodes, with lines from each to those it was made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clozeline.report.charts import clip_label, figure
from clozeline.report.svg import MUTED, dot, picture, polyline, shade, text

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

    shapes = []
    for above, below in children.items():
        x, top = _GUTTER - _LANE * lanes[above], _middle(above) + _APART
        for row in below:
            bottom = _middle(row) - _APART
            corners = [(_GUTTER, top), (x, top), (x, bottom), (_GUTTER, bottom)]
            shapes.append(polyline(corners, shade(lanes[above]), width=1.2))
    for number, node in enumerate(nodes):
        x, y = _GUTTER + 10, _middle(number)
        shapes.append(dot(_GUTTER, y, shade(node.group), 3.6))
        shapes.append(text(x, y + _NAME_UP, clip_label(node.name, _CHARACTERS), size=11))
        shapes.append(text(x, y + _LABEL_DOWN, clip_label(node.label, _CHARACTERS), size=9, color=MUTED))
    told = [f"{node.name} from {', '.join(node.parents) or 'outside'}" for node in nodes]
    return figure(title, told, picture(_ROW * len(nodes), shapes)) if nodes else ""


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
