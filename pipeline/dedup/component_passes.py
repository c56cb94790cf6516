"""Passes that find the components of candidates over ranges: links go up through levels, names of components come down.

Level 0 are the ranges of band keys, level 1 the parts, and above them each level has half of the units, down to one.
A unit of a level joins what it holds (`contract`), asks the next level for the name of each label, and gets the answers
when the last level, which sees all that is left, has joined the rest. A node whose labels nothing joins goes no higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.columns import hash_bounds, read_rows, rows_of, write_rows
from clozeline.pipeline.dedup.contraction import Contraction, contract, look_up
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output

_LINK: Final = (("node", "<u8"), ("label", "<u8"), ("source", "<u4"), ("linked", "?"))
_ANSWER: Final = (("label", "<u8"), ("component", "<u8"))


@dataclass(frozen=True, slots=True)
class Levels:
    """Units of each level: hash ranges, parts, then half of the ranges, and so on to one unit.

    A level joins so much that the next one, with half of the units, gives none of them more than a range of band keys:
    of a path through all documents, its worst case, each level leaves two thirds of the nodes.

    Where all keys are in one range, or all documents in one part, levels 0 and 1 see everything.
    """

    units: tuple[int, ...]

    @classmethod
    def of(cls, parts: Parts) -> Levels:
        """Return the levels for so many ranges and parts."""
        units = [parts.ranges, parts.units]
        width = parts.ranges if parts.units > 1 else 1
        while width > 1:
            width = -(-width // 2)
            units.append(width)
        return cls(tuple(units))

    @property
    def last(self) -> int:
        """Number of the level that sees all that is left."""
        return len(self.units) - 1

    def links(self, level: int) -> Exchange:
        """Links from the level before, by node."""
        return Exchange(f"near-links-{level}", self.units[level - 1], self.units[level])

    def answers(self, level: int) -> Exchange:
        """Names of components, to the units of the level before that asked for them."""
        return Exchange(f"near-answers-{level}", self.units[level], self.units[level - 1])


def level_passes(parts: Parts) -> list[Pass[Any]]:
    """Return the passes between candidates and members: links up to the last level, answers down to the parts."""
    levels = Levels.of(parts)
    passes: list[Pass[Any]] = []
    for level in range(1, levels.last):
        passes += [*levels.links(level).passes(), NearLinks(parts, level)]
    passes += levels.links(levels.last).passes()
    for level in range(levels.last, 1, -1):
        passes += [NearAnswers(parts, level), *levels.answers(level).passes()]
    return passes


def write_links(
    output: Output, exchange: Exchange, source: int, found: Contraction, *, by_part: bool = False
) -> dict[str, int]:
    """Write the label of each node to the unit of the next level that has the node; return their number by exchange."""
    order = np.argsort(found.nodes) if by_part else np.arange(len(found.nodes))
    columns = {"node": found.nodes, "label": found.labels, "linked": found.linked}
    columns["source"] = np.full(len(order), source, np.uint32)
    rows = rows_of(_LINK, columns)[order]
    if by_part:
        bounds = np.searchsorted(rows["node"] >> np.uint64(32), np.arange(exchange.destinations + 1)).tolist()
    else:
        bounds = hash_bounds(found.ranks, exchange.destinations)
    write_rows(output, exchange, source, rows, bounds)
    return {exchange.kind: len(found.nodes)}


class Step:
    """Links that a unit of a level got, joined.

    Args:
        parts: files of dedup.
        level: number of the level, from 1.
        unit: number of the unit.
    """

    def __init__(self, parts: Parts, level: int, unit: int) -> None:
        self._parts, self._levels, self._level, self._unit = parts, Levels.of(parts), level, unit
        links = self._levels.links(level)
        self.links = read_rows(parts.folder, links, unit, _LINK)
        self.taken = {links.kind: len(self.links)}
        """rows read so far, by exchange"""
        # A node that only asks for its own name is joined to nothing: it is a component, and goes no higher.
        self._joined = self.links[self.links["linked"]]
        self.found = contract(self._joined["node"], np.ascontiguousarray(self._joined["label"]), level)

    def components(self) -> tuple[UInt64, UInt64]:
        """Return the nodes that are joined to others, sorted, and the name of the component of each.

        Raises:
            IntegrityError: the next level did not answer.
        """
        labels = self.found.labels[self.found.rows]
        if self._level < self._levels.last:
            labels = self._answered(labels)
        nodes, first = np.unique(self._joined["node"], return_index=True)
        return nodes, labels[first]

    def _answered(self, labels: UInt64) -> UInt64:
        exchange = self._levels.answers(self._level + 1)
        answers = read_rows(self._parts.folder, exchange, self._unit, _ANSWER)
        self.taken[exchange.kind] = len(answers)
        answers = answers[np.argsort(answers["label"])]
        components, present = look_up(answers["label"], answers["component"], labels)
        if not present.all():
            raise IntegrityError(
                f"{self._parts.folder}: expected an answer of level {self._level + 1} for each label of unit "
                f"{self._unit} of level {self._level}, got none for {np.count_nonzero(~present)}; delete "
                f"{self._parts.folder / 'tmp'} and run the stage again, which makes it again"
            )
        return components


@dataclass
class NearLinks(Pass[DedupCounts]):
    """Per unit of a level: join the links of the level before, and pass on the nodes that are left."""

    parts: Parts
    level: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the pass."""
        return f"near-links-{self.level}"

    @property
    def units(self) -> int:  # type: ignore[override]
        """Units of the level."""
        return Levels.of(self.parts).units[self.level]

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the links of a unit for the next level."""
        step = Step(self.parts, self.level, unit)
        sent = write_links(output, Levels.of(self.parts).links(self.level + 1), unit, step.found)
        return {"sent": sent, "taken": read_by(self.name, step.taken)}


@dataclass
class NearAnswers(Pass[DedupCounts]):
    """Per unit of a level: the names of components for the units of the level before that asked for them."""

    parts: Parts
    level: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the pass."""
        return f"near-answers-{self.level}"

    @property
    def units(self) -> int:  # type: ignore[override]
        """Units of the level."""
        return Levels.of(self.parts).units[self.level]

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the answers of a unit."""
        step = Step(self.parts, self.level, unit)
        asked = step.links[step.links["node"] == step.links["label"]]
        asked = asked[np.argsort(asked["source"], kind="stable")]
        components, _ = look_up(*step.components(), np.ascontiguousarray(asked["node"]))
        exchange = Levels.of(self.parts).answers(self.level)
        bounds: list[int] = np.searchsorted(asked["source"], np.arange(exchange.destinations + 1)).tolist()
        rows: NDArray[Any] = rows_of(_ANSWER, {"label": asked["node"], "component": components})
        write_rows(output, exchange, unit, rows, bounds)
        return {"sent": {exchange.kind: len(asked)}, "taken": read_by(self.name, step.taken)}
