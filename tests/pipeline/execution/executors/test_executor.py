"""Units dealt to tasks: each is of one task, and one with a result is not run again."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.execution.executors import Deal


class Counting:
    """A step that counts what it runs."""

    logs = Path("logs")

    def __init__(self, done: set[int]) -> None:
        self.results, self.runs = set(done), []

    def __call__(self, unit: int) -> None:
        self.runs.append(unit)
        self.results.add(unit)

    def has_result(self, unit: int) -> bool:
        return unit in self.results

    def has_started(self, unit: int) -> bool:
        return False

    def give_up(self, unit: int, reason: str) -> None: ...


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), unique=True, max_size=12), st.integers(1, 5), st.sets(st.integers(0, 30)), st.data()
)
def test_each_unit_without_a_result_runs_once_in_its_task(
    units: list[int], tasks: int, done: set[int], data: st.DataObject
) -> None:
    step = Counting(done)
    deal = Deal(step, units, tasks)
    for rank in data.draw(st.permutations(range(tasks))):
        before = len(step.runs)
        assert deal("data", rank, tasks) == "data"
        ran = step.runs[before:]
        assert [deal.task_of(unit) for unit in ran] == [rank] * len(ran)
        assert ran == [unit for unit in units if unit in ran], "in their order"
    assert sorted(step.runs) == sorted(set(units) - done)
    sizes = [sum(deal.task_of(unit) == rank for unit in units) for rank in range(tasks)]
    assert max(sizes) - min(sizes) <= 1
