"""Train on tasks in sequence and measure forgetting.

    clozeline forgetting mine/run tasks='[a.yaml, b.yaml]' output=forgetting

Each method learns all tasks in order, starting from RUN: `plain`; `replay`, which mixes in rows of
earlier tasks; `ewc`, for which this tool estimates the Fisher information; `l2_sp`. The table has
the score of every task after every stage, forgetting and backward transfer. With `learned=1`, RUN
has already learned the first task. Other words go to `train/main.py`: `steps=500`. The same command
resumes after an interruption.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from clozeline.configuration.config import to_data
from clozeline.extensions.studies.task_sequence import (
    ForgettingOptions,
    TaskSequence,
    outcome,
    summary_lines,
)
from clozeline.files import publish_json
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.start.multirun.runner import claim_folder, run_plan
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.configuration.config import with_absolute_paths


def _forgetting(options: ForgettingOptions) -> None:
    """Learn all tasks with all methods, write `forgetting.json`, and print its tables."""
    options = with_absolute_paths(options)
    StoredCheckpoint.find(options.run)
    sequence = TaskSequence.read(options)
    tasks = [to_data(task) for task in sequence.tasks]
    claim_folder(options.output / "words.json", options, "method", "output", "seeds", tasks=tasks)
    before = sequence.scores(options.run)
    if not before.exists():
        sequence.write_scores([options.run], before)
    seeds = range(options.seeds)
    steps = [
        step
        for method, seed in product(options.method, seeds)
        for step in sequence.steps(method, seed)
    ]
    run_plan([*{tuple(step.results): step for step in steps}.values()])
    names = [task.name for task in sequence.tasks]
    learned = [max(0, number - options.learned + 1) for number in range(len(names))]
    methods: dict[str, Any] = {}

    for method in options.method:
        results = [sequence.results(method, seed) for seed in seeds]
        matrices = [[stage["scores"] for stage in stages] for stages in results]
        kinds = [results[0][-1]["kinds"][name] for name in names]
        rising = [kind == "accuracy" for kind in kinds]
        figures = [outcome(matrix, names, learned, rising) for matrix in matrices]
        methods[method] = {"matrices": matrices, "figures": figures}

    stages = ["before", *(f"after {name}" for name in names[options.learned :])]
    content = {"tasks": names, "kinds": kinds, "stages": stages, "learned": learned}
    publish_json(options.output / "forgetting.json", {**content, "methods": methods})
    print(*summary_lines(methods, names, stages, kinds), sep="\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ForgettingOptions, _forgetting)


if __name__ == "__main__":
    run_as_script(main)
