"""Equations between the counts of a stage: what came in went out, or was left out for a reason.

A stage declares them once. Its counts are checked by them, and the table of a run and its page show
what they name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from clozeline.pipeline.execution.unit_record import require_equal

_CHARACTER: Final = "character"
"""Unit of equations whose reasons are shown as characters cut, in a column of their own."""
_DOMINANT: Final = 0.9
"""Share of the documents from which on one reason for dropping them is told apart."""
EACH: Final = "*"
"""Step of a path that stands for every name, such as each language."""
CountPath: TypeAlias = str | tuple[str, ...]
"""Name of a count, or the names that lead to it; what it leads to is added up, such as numbers by
reason."""
Tree: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sums that are equal: `Equation(["documents_in"], ["documents_out", "rejected"], unit="document")`."""

    left: Sequence[CountPath]
    right: Sequence[CountPath]
    unit: str = ""
    """unit of what the stage reads (left) and writes or leaves out (right); empty: tables do not
    show it"""
    within: tuple[str, ...] = ()
    """names above the counts; the equation holds for each entry of `EACH`: `("sets", EACH,
    EACH)`"""
    of_stage: bool = False
    """several passes count its sides, so that it holds for the sums over a stage, not for a unit"""
    counted: CountPath = ()
    """it holds only where this is counted, such as by a pass that a recipe may lack"""

    def check(self, where: str, counts: Tree) -> None:
        """Raise IntegrityError where the sums differ; `where` is the name of the stage.

        What is not counted is 0.
        """
        for labels, inner in _entries(counts, self.within):
            if not self.counted or next(_values(inner, _steps(self.counted)), None) is not None:
                left = add_up(inner, self.left)
                right = add_up(inner, self.right)
                require_equal(
                    f"{where} {'/'.join(labels)}".rstrip(),
                    _name(self.left),
                    left,
                    _name(self.right),
                    right,
                )

    def dropped(self, counts: Tree) -> Iterator[Mapping[str, int]]:
        """Yield the numbers by reason on the right."""
        for path in self.right:
            for value in _values(counts, _steps(path)):
                if isinstance(value, Mapping):
                    yield value


def add_up(counts: Tree, paths: Sequence[CountPath]) -> int:
    """Return the sum of what the paths lead to; what is not counted is 0."""
    return sum(_total(value) for path in paths for value in _values(counts, _steps(path)))


def _total(value: Any) -> int:
    return sum(map(_total, value.values())) if isinstance(value, Mapping) else int(value)


def _values(counts: Any, steps: tuple[str, ...]) -> Iterator[Any]:
    """Yield what the steps lead to."""
    if not steps:
        yield counts
        return
    first, *rest = steps
    for name in counts if first == EACH else {first} & counts.keys():
        yield from _values(counts[name], tuple(rest))


def _entries(
    counts: Tree, within: tuple[str, ...], *labels: str
) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """Yield the mappings that the names lead to, with the names that `EACH` stands for."""
    if not within:
        yield labels, counts
        return
    first, *rest = within
    if first == EACH:
        for name, inner in counts.items():
            yield from _entries(inner, tuple(rest), *labels, name)
    elif first in counts:
        yield from _entries(counts[first], tuple(rest), *labels)


def _steps(path: CountPath) -> tuple[str, ...]:
    return (path,) if isinstance(path, str) else path


def _name(paths: Sequence[CountPath]) -> str:
    return " + ".join(".".join(step for step in _steps(path) if step != EACH) for path in paths)


@dataclass(frozen=True, slots=True)
class StageRow:
    """Row of a stage in the table of a run; output and dropped amounts of the same unit add up to the input."""

    amount_in: str  # amounts with their units, one a line
    amount_out: str = "–"
    dropped: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """unit (`document`), and the number of those left out by reason; a reason without unit says its
    own"""
    parts: tuple[
        tuple[str, StageRow], ...
    ] = ()  # rows of the sets of the stage by their labels, below its own
    notes: tuple[str, ...] = ()  # what else a reader must know of the amounts, a line each
    totals: Mapping[str, int] = field(default_factory=dict)
    """how many of a unit of `left_out` came in, where that is known"""
    characters: int | None = None  # characters that came in; None if the stage reads no documents
    cut: Mapping[str, int] = field(
        default_factory=dict
    )  # characters that are not handed on, by step or reason

    @staticmethod
    def of(
        counts: Mapping[str, Any], equations: Sequence[Equation], amount_in: str, amount_out: str
    ) -> StageRow:
        """Return a row with the totals of the equations, and what they leave out by reason."""
        shown = [equation for equation in equations if equation.unit]
        dropped = [(each.unit, reasons) for each in shown for reasons in each.dropped(counts)]
        characters = [reasons for unit, reasons in dropped if unit == _CHARACTER]
        totals = {each.unit: add_up(counts, each.left) for each in shown}
        return StageRow(
            amount_in,
            amount_out,
            tuple((unit, reasons) for unit, reasons in dropped if unit != _CHARACTER),
            totals=totals,
            characters=totals.pop(_CHARACTER, None),
            cut=characters[0] if characters else {},
        )

    def iter_reasons(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each unit of what is left out with counts and reasons, the most frequent first."""
        for noun, group in self.dropped:
            if reasons := sorted((-count, reason) for reason, count in group.items() if count):
                yield noun, [f"{-count:,} {reason}" for count, reason in reasons]

    @property
    def cut_share(self) -> str:
        """The characters that are not handed on, as a percentage; "" where none came in."""
        return f"{100 * sum(self.cut.values()) / self.characters:.1f} %" if self.characters else ""

    def most_dropped(self) -> tuple[str, int, str] | None:
        """Return unit, number and reason of what drops nine tenths and more of all documents or rows, if one does."""
        for noun, reasons in self.dropped:
            for reason, count in reasons.items():
                if count and count >= _DOMINANT * self.totals.get(noun, math.inf):
                    return noun, count, reason
        return None
