"""Train on tasks in sequence and measure forgetting.

    clozeline forgetting RUN tasks=[a.yaml,b.yaml] output=DIR

Each method learns all tasks in order, starting from RUN: `plain`; `replay`, which mixes in rows of
earlier tasks; `ewc`, for which this tool estimates the Fisher information; `l2_sp`. The table has
the score of every task after every stage, forgetting and backward transfer. With `learned=1`, RUN
has already learned the first task. Other words go to `train/main.py`: `steps=500`. The same command
resumes after an interruption.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from clozeline.command_line import OtherKeys
from clozeline.configuration.config import config_class
from clozeline.extensions.studies.task_sequence import (
    ForgettingOptions,
    summary,
    summary_lines,
)
from clozeline.files import publish_json
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.options import RunArgument
from clozeline.tools.start.multirun.runner import experiment_settings, write_settings


@config_class
class ForgettingCommand(ForgettingOptions, RunArgument):
    """The run that starts the sequence, its tasks and methods."""

    words: Annotated[tuple[str, ...], OtherKeys("keys of the training")] = ()


def forgetting(run: Path, options: ForgettingOptions, words: Sequence[str]) -> list[str]:
    """Learn all tasks with all methods, and write `forgetting.json`.

    Return the lines of the table.
    """
    from clozeline.extensions.studies.task_sequence import TaskSequence, read_tasks
    from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint

    StoredCheckpoint.find(run)
    # check that tasks and methods fit before anything is trained
    tasks = read_tasks(options.tasks, options.learned)
    sequence = TaskSequence(run.resolve(), tasks, options, tuple(words))
    for method in options.method:
        sequence.check(method)
    settings = experiment_settings(options, "run", "words", "tasks", "method", "output", "seeds")
    settings_to_store = {
        "run": str(run.resolve()),
        "tasks": [task.as_dict() for task in tasks],
        "words": list(words),
    } | settings

    write_settings(options.output / "words.json", settings_to_store)
    seeds = range(options.seeds)
    matrices = {
        method: [sequence.learn(method, seed) for seed in seeds] for method in options.method
    }
    stages = ["before", *(f"after {task.name}" for task in tasks[options.learned :])]
    learned = [max(0, number - options.learned + 1) for number in range(len(tasks))]
    names = [task.name for task in tasks]
    kinds = sequence.kinds(options.method[0])
    methods_summary = summary(
        matrices, names, learned, [measure == "accuracy" for measure in kinds]
    )
    content = {
        "tasks": names,
        "kinds": kinds,
        "stages": stages,
        "learned": learned,
        "methods": methods_summary,
    }

    publish_json(options.output / "forgetting.json", content)
    return [*summary_lines(methods_summary, names, stages, kinds)]


def _run(options: ForgettingCommand) -> None:
    print(*forgetting(options.run, options, options.words), sep="\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ForgettingCommand, _run)


if __name__ == "__main__":
    run_as_script(main)
