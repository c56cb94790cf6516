"""Equations between the counts of a stage: what came in went out, or was left out for a reason.

A stage declares them once. Its counts are checked by them, and the table of a run and its page show what they name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from clozeline.pipeline.execution.unit_record import require_equal

EACH: Final = "*"
"""Step of a path that stands for every name, such as each language."""
Path: TypeAlias = str | tuple[str, ...]
"""Name of a count, or the names that lead to it; what it leads to is added up, such as numbers by reason."""
Tree: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sums that are equal: `Equation(["documents_in"], ["documents_out", "rejected"], unit="document")`."""

    left: Sequence[Path]
    right: Sequence[Path]
    unit: str = ""
    """unit of what the stage reads (left) and writes or leaves out (right); empty: tables do not show it"""
    within: tuple[str, ...] = ()
    """names above the counts; the equation holds for each entry of `EACH`: `("sets", EACH, EACH)`"""
    of_stage: bool = False
    """several passes count its sides, so that it holds for the sums over a stage, not for a unit"""
    counted: Path = ()
    """it holds only where this is counted, such as by a pass that a recipe may lack"""

    def check(self, where: str, counts: Tree) -> None:
        """Raise IntegrityError where the sums differ; `where` is the name of the stage. What is not counted is 0."""
        for labels, inner in _entries(counts, self.within):
            if not self.counted or next(_values(inner, _steps(self.counted)), None) is not None:
                left, right = add_up(inner, self.left), add_up(inner, self.right)
                require_equal(f"{where} {'/'.join(labels)}".rstrip(), _name(self.left), left, _name(self.right), right)

    def left_out(self, counts: Tree) -> Iterator[Mapping[str, int]]:
        """Yield the numbers by reason on the right."""
        for path in self.right:
            for value in _values(counts, _steps(path)):
                if isinstance(value, Mapping):
                    yield value


def add_up(counts: Tree, paths: Sequence[Path]) -> int:
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


def _entries(counts: Tree, within: tuple[str, ...], *labels: str) -> Iterator[tuple[tuple[str, ...], Tree]]:
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


def _steps(path: Path) -> tuple[str, ...]:
    return (path,) if isinstance(path, str) else path


def _name(paths: Sequence[Path]) -> str:
    return " + ".join(".".join(step for step in _steps(path) if step != EACH) for path in paths)
