"""Passes that find connected components of candidates: links go up through levels, component names come back down.

Level 0 are the ranges of band keys, level 1 the parts; each further level has half the units, down to one. A unit
joins its links (`contract`), asks the next level for the component of each label, and gets the answers after the last
level, which sees all remaining links, has joined them. A node that nothing joins goes no higher.
"""

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_rows, write_rows
from clozeline.pipeline.dedup.contraction import Contraction, contract, look_up
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output

_LINK: Final = (("node", "<u8"), ("label", "<u8"), ("source", "<u4"), ("linked", "?"))
_ANSWER: Final = (("label", "<u8"), ("component", "<u8"))


class Levels:
    """Units of each level: hash ranges, parts, then half of the ranges, and so on to one unit.

    A unit of a level never holds more than a range of band keys: in the worst case, a path through all documents,
    each level leaves two thirds of the nodes. With one range or one part, levels 0 and 1 see everything.
    """

    def __init__(self, parts: Parts) -> None:
        self.units = [parts.ranges, parts.units]
        width = parts.ranges if parts.units > 1 else 1
        while width > 1:
            width = -(-width // 2)
            self.units.append(width)

    @property
    def last(self) -> int:
        """Index of the level that sees all remaining links."""
        return len(self.units) - 1

    def links(self, level: int) -> Exchange:
        """Links from the previous level, by node."""
        return Exchange(f"near-links-{level}", self.units[level - 1], self.units[level])

    def answers(self, level: int) -> Exchange:
        """Component names for the units of the previous level that asked."""
        return Exchange(f"near-answers-{level}", self.units[level], self.units[level - 1])

    def exchanges(self) -> list[Exchange]:
        """Links up to the last level, and answers back to the parts."""
        answers = [self.answers(level) for level in range(2, self.last + 1)]
        return [self.links(level) for level in range(1, self.last + 1)] + answers


def level_passes(parts: Parts) -> list[Pass[Any]]:
    """Return the passes between candidates and members: links up to the last level, answers back to the parts."""
    levels = Levels(parts)
    passes: list[Pass[Any]] = []
    for level in range(1, levels.last):
        passes += [*levels.links(level).passes(), NearLinks(parts, level)]
    passes += levels.links(levels.last).passes()
    for level in range(levels.last, 1, -1):
        passes += [NearAnswers(parts, level), *levels.answers(level).passes()]
    return passes


def write_links(
    output: Output, exchange: Exchange, source: int, joined: Contraction, *, by_part: bool = False
) -> dict[str, int]:
    """Send the label of each node to the unit of the next level that has the node; return the count by exchange."""
    order = np.argsort(joined.nodes) if by_part else np.arange(len(joined.nodes))
    columns = {"node": joined.nodes, "label": joined.labels, "linked": joined.linked}
    columns["source"] = np.full(len(order), source, np.uint32)
    rows = pack_rows(_LINK, columns)[order]
    if by_part:
        bounds = np.searchsorted(rows["node"] >> np.uint64(32), np.arange(exchange.destinations + 1)).tolist()
    else:
        bounds = hash_bounds(joined.ranks, exchange.destinations)
    write_rows(output, exchange, source, rows, bounds)
    return {exchange.kind: len(joined.nodes)}


class ReceivedLinks:
    """The links that a unit of a level (from 1) received, contracted."""

    def __init__(self, parts: Parts, level: int, unit: int) -> None:
        self._parts, self._levels, self._level, self._unit = parts, Levels(parts), level, unit
        links = self._levels.links(level)
        self.links = read_rows(parts.folder, links, unit, _LINK)
        self.taken = {links.kind: len(self.links)}  # rows read so far, by exchange
        # a node that only asks for its own name is a component by itself and goes no higher
        self._joined = self.links[self.links["linked"]]
        self.contraction = contract(self._joined["node"], np.ascontiguousarray(self._joined["label"]), level)

    def components(self) -> tuple[UInt64, UInt64]:
        """Return the nodes that are joined to others, sorted, and the component name of each."""
        labels = self.contraction.labels[self.contraction.rows]
        if self._level < self._levels.last:
            exchange = self._levels.answers(self._level + 1)
            answers = read_rows(self._parts.folder, exchange, self._unit, _ANSWER)
            self.taken[exchange.kind] = len(answers)
            answers = answers[np.argsort(answers["label"])]
            labels, present = look_up(answers["label"], answers["component"], labels)
            if not present.all():
                raise IntegrityError(
                    f"{self._parts.folder}: expected an answer of level {self._level + 1} for each label of unit "
                    f"{self._unit} of level {self._level}, got none for {np.count_nonzero(~present)}; delete "
                    f"{self._parts.folder / 'tmp'} and run the stage again"
                )
        nodes, first = np.unique(self._joined["node"], return_index=True)
        return nodes, labels[first]


class _LevelPass(Pass[DedupCounts]):
    """A pass with one unit per unit of a level."""

    kind: ClassVar[str]

    def __init__(self, parts: Parts, level: int) -> None:
        self.parts, self.level, self.levels = parts, level, Levels(parts)
        self.name, self.units = f"{self.kind}-{level}", self.levels.units[level]


class NearLinks(_LevelPass):
    """Per unit of a level: contract the links of the previous level and pass on the remaining nodes."""

    kind = "near-links"

    def run(self, unit: int, output: Output) -> DedupCounts:
        links = ReceivedLinks(self.parts, self.level, unit)
        sent = write_links(output, self.levels.links(self.level + 1), unit, links.contraction)
        return {"sent": sent, "taken": read_by(self.name, links.taken)}


class NearAnswers(_LevelPass):
    """Per unit of a level: send component names to the units of the previous level that asked for them."""

    kind = "near-answers"

    def run(self, unit: int, output: Output) -> DedupCounts:
        received = ReceivedLinks(self.parts, self.level, unit)
        # a link from a node to itself is a question: answer it with the node's component
        asked = received.links[received.links["node"] == received.links["label"]]
        asked = asked[np.argsort(asked["source"], kind="stable")]
        components, _ = look_up(*received.components(), np.ascontiguousarray(asked["node"]))
        exchange = self.levels.answers(self.level)
        bounds: list[int] = np.searchsorted(asked["source"], np.arange(exchange.destinations + 1)).tolist()
        rows: NDArray[Any] = pack_rows(_ANSWER, {"label": asked["node"], "component": components})
        write_rows(output, exchange, unit, rows, bounds)
        return {"sent": {exchange.kind: len(asked)}, "taken": read_by(self.name, received.taken)}
