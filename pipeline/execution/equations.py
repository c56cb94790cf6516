"""Accounting equations of a stage: every record that comes in goes out, or is dropped for a reason.

A stage declares its equations once. The runner checks them, and the table and the page of a run
show the counts that they name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from clozeline.errors import share_text
from clozeline.pipeline.execution.unit_record import require_equal

_CHARACTER_UNIT: Final = "character"
"""Unit of equations whose reasons the tables show in a column of their own, as characters cut."""
_DOMINANT_SHARE: Final = 0.2
"""A reason that drops at least this share of the documents is reported by name."""
EACH: Final = "*"
"""Step of a path that matches every name, such as each language."""
CountPath: TypeAlias = str | tuple[str, ...]
"""Name of a count, or the path of names that leads to the count. If the path ends at a mapping,
such as numbers by reason, its values are summed."""
Tree: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two equal sums of counts.

    Example: `Equation(["documents_in"], ["documents_out", "rejected"], unit="document")`.
    """

    left: Sequence[CountPath]
    right: Sequence[CountPath]
    unit: str = ""
    """what the stage reads (left) and writes or drops (right), such as `document`; empty: tables do
    not show the equation"""
    is_partial: bool = False
    """true if the right side is only a part of the left one, such as the bytes that were lost"""
    within: tuple[str, ...] = ()
    """names above the counts; the equation holds for each entry that `EACH` matches: `("sets",
    EACH, EACH)`"""

    def check(self, where: str, counts: Tree) -> None:
        """Raise IntegrityError where the sums differ; `where` is the name of the stage.

        A missing count is 0.
        """
        if self.is_partial:
            return
        for labels, inner in _entries(counts, self.within):
            require_equal(
                f"{where} {'/'.join(labels)}".rstrip(),
                _name(self.left),
                add_up(inner, self.left),
                _name(self.right),
                add_up(inner, self.right),
            )

    def iter_dropped(self, counts: Tree) -> Iterator[Mapping[str, int]]:
        """Yield the counts by reason that stand on the right side."""
        for path in self.right:
            for value in _values(counts, path):
                if isinstance(value, Mapping):
                    yield value


def add_up(counts: Tree, paths: Sequence[CountPath]) -> int:
    """Return the sum of the counts at the end of the paths; a missing count is 0."""
    return sum(_total(value) for path in paths for value in _values(counts, path))


def _total(value: Any) -> int:
    return sum(map(_total, value.values())) if isinstance(value, Mapping) else int(value)


def _values(counts: Tree, path: CountPath) -> Iterator[Any]:
    """Yield every value at the end of a path."""
    return (value for _, value in _entries(counts, _steps(path)))


def _entries(
    counts: Any, within: tuple[str, ...], *labels: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values at the end of a path, with the names that `EACH` matched."""
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
    shown = ([step for step in _steps(path) if step != EACH] for path in paths)
    return " + ".join(map(".".join, shown))


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage's row in the table of a run.

    For each unit, output and dropped amounts add up to the input.
    """

    amount_in: str  # amounts with their units, one per line
    amount_out: str = "–"
    dropped: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """unit (such as `document`) and how many units each reason dropped; if the unit is empty, the
    reason names it"""
    parts: tuple[tuple[str, StageRow], ...] = ()
    """rows of the stage's sets by label, shown below the row of the stage"""
    notes: tuple[str, ...] = ()
    """further remarks about the amounts, one per line"""
    totals: Mapping[str, int] = field(default_factory=dict)
    """number of input units, where it is known, by unit of `dropped`"""
    characters: int | None = None
    """number of input characters; None if the stage reads no documents"""
    cut: Mapping[str, int] = field(default_factory=dict)
    """number of removed characters, by step or reason"""
    sources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """columns of the table by source: title, and number by the `source` label of the inputs"""

    @staticmethod
    def of(
        counts: Mapping[str, Any], equations: Sequence[Equation], amount_in: str, amount_out: str
    ) -> StageRow:
        """Return a row with the totals and the drop reasons of the equations."""
        shown = [equation for equation in equations if equation.unit]
        dropped = dict[str, Counter[str]]()
        for each in shown:
            for reasons in each.iter_dropped(counts):
                dropped.setdefault(each.unit, Counter()).update(reasons)
        totals = {each.unit: add_up(counts, each.left) for each in shown}
        cut = dropped.pop(_CHARACTER_UNIT, Counter())
        return StageRow(
            amount_in,
            amount_out,
            (*dropped.items(),),
            totals=totals,
            characters=totals.pop(_CHARACTER_UNIT, None),
            cut=cut,
            sources=counts.get("sources", {}),
        )

    def iter_reasons(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each unit with its drop reasons and their counts, the most frequent first."""
        for noun, group in self.dropped:
            if reasons := _rank(group):
                yield noun, reasons

    def amounts(self, name: str, *cost: str) -> Iterator[tuple[str, ...]]:
        """Yield name, input, output and shares of what was removed, and those of the sets.

        The shares are that of the characters of documents, and that of the bytes of the input.
        `cost` are further cells of the stage.
        """
        shares = self.shares()
        cut = [share_text(shares["character"])] if "character" in shares else []
        if shares.get("byte"):
            cut.append(f"{share_text(shares['byte'])} of bytes")
        yield name, self.amount_in, self.amount_out, "\n".join(cut), *cost
        for label, part in self.parts:
            yield from part.amounts(f"· {label}", *[""] * len(cost))

    def shares(self) -> dict[str, float]:
        """Return the share that was dropped or cut of each unit whose total is known."""
        dropped = Counter[str](character=sum(self.cut.values()))
        for unit, reasons in self.dropped:
            dropped[unit] += sum(reasons.values())
        totals = {**self.totals, "character": self.characters}
        return {unit: dropped[unit] / total for unit, total in totals.items() if total}

    def remarks(self) -> Iterator[str]:
        """Yield what was dropped or cut, and further remarks."""
        for noun, reasons in self.iter_reasons():
            yield f"{f'dropped ({noun}s)' if noun else 'noticed'}: {', '.join(reasons)}"
        if steps := _rank(self.cut):
            total = f"{sum(self.cut.values()):,} of {self.characters or 0:,} characters"
            yield f"cut: {total}: {', '.join(steps)}"
        yield from self.notes

    def most_dropped(self) -> tuple[str, int, str] | None:
        """Return unit, count and reason if one reason drops 20 % or more of all documents or rows.

        The most frequent reason; None if no reason does.
        """
        for noun, reasons in self.dropped:
            for reason, count in Counter(reasons).most_common(1):
                if count and count >= _DOMINANT_SHARE * self.totals.get(noun, math.inf):
                    return noun, count, reason
        return None


def _rank(counts: Mapping[str, int]) -> list[str]:
    """Return the counts with their names, the largest first, without zeros."""
    ranked = sorted((-count, name) for name, count in counts.items() if count)
    return [f"{-count:,} {name}" for count, name in ranked]
