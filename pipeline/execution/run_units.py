"""Run the units of a pass with the executor of the recipe, so that no unit is lost.

A unit whose process dies is tried again, as often as `executor.retries` says, and then recorded as failed. The other
units run on.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from clozeline.pipeline.execution.executors import Deal, Executor
from clozeline.pipeline.execution.unit_runner import UnitRunner
from clozeline.pipeline.recipe import ExecutorConfig


def run_units(
    step: UnitRunner,
    units: Sequence[int],
    config: ExecutorConfig,
    tick: Callable[[], None],
    report: Callable[[str], None] = print,
    input_bytes: int | None = None,
) -> None:
    """Run every unit that is not done, dealt to tasks in this order; `tick` is called repeatedly, in this process.

    `report` shows a line to the user; `input_bytes` says about how much the units read.
    """
    if not units:
        return
    executor: Executor = config.chosen().build(config)
    deaths: Counter[int] = Counter()
    remaining = list(units)
    fruitless = 0
    while remaining:
        deal = Deal(step, remaining, min(config.tasks, len(remaining)), input_bytes)
        ends = executor.run(deal, tick, report)
        lost = [unit for unit in remaining if not step.has_result(unit)]
        began = [unit for unit in lost if step.has_started(unit)]
        deaths.update(began)
        # Workers that die before they begin a unit would die in every round.
        fruitless = 0 if began or len(lost) < len(remaining) else fruitless + 1
        for unit in lost:
            if executor.final or deaths[unit] > config.retries or fruitless > config.retries:
                step.give_up(unit, ends.get(deal.task_of(unit), "its worker process died (killed, or out of memory)"))
        remaining = [unit for unit in lost if not step.has_result(unit)]
