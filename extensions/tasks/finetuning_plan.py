"""Plan a fine-tuning: seeds, steps, learning rate, and the time of all runs.

The plan is printed before the first run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.configuration.config import load_config
from clozeline.errors import plural
from clozeline.pipeline.shards import open_shards
from clozeline.terminal import duration_text
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.finetuning import plan_learning_rate, plan_seeds, plan_task_steps
from clozeline.train.logs.json_lines import read_lines, step_records

_MEASURED_STEPS: Final = 20
"""Steps after the first recorded one that measure the time of a run."""


@dataclass(frozen=True)
class FinetuningPlan:
    """What the runs of a fine-tuning have in common, with every `auto` resolved."""

    seeds: int
    steps: int
    learning_rate: float
    rows: int
    width: int
    chosen: tuple[str, ...]
    """keys whose value follows rows and width, rather than being given"""
    given: tuple[str, ...]
    """keys of the training that were given"""

    @property
    def line(self) -> str:
        """The plan in one line, with the keys that `auto` chose."""
        conditions = f"{self.rows:,} rows, a body of width {self.width}"
        keys = f"; auto chose {', '.join(self.chosen)}" if self.chosen else ""
        return f"{self.text}, learning rate {self.learning_rate:g}, for {conditions}{keys}"

    @property
    def text(self) -> str:
        """The number of runs and their steps."""
        return f"{plural(self.seeds, 'seed')} × {self.steps:,} steps"


def plan_finetuning(
    recipe: Path, words: Sequence[str], sets: Sequence[Path], seeds: int | None
) -> FinetuningPlan:
    """Return the plan of a training on sets.

    Args:
        recipe: configuration of the training.
        words: its overrides.
        sets: folders of the training sets.
        seeds: a given number of runs; None: by the rows.
    """
    config: TrainConfig = load_config(TrainConfig, recipe, words, is_users=True)
    totals = [open_shards(folder / "manifest.json").manifest.totals for folder in sets]
    rows = sum(total.samples for total in totals)
    steps = config.steps
    rate = config.optimizer.options.learning_rate
    training = {"steps": steps == "auto", "optimizer.learning_rate": rate == "auto"}
    follows = {"seeds": seeds is None} | training
    steps = plan_task_steps(rows, config.data.global_batch) if steps == "auto" else steps
    return FinetuningPlan(
        seeds=plan_seeds(rows) if seeds is None else seeds,
        steps=steps,
        learning_rate=plan_learning_rate(config.model.dim) if rate == "auto" else rate,
        rows=rows,
        width=config.model.dim,
        chosen=tuple(key for key, is_auto in follows.items() if is_auto),
        given=tuple(key for key, is_auto in training.items() if not is_auto),
    )


def tell_time(run: Path, plan: FinetuningPlan, say: Callable[[str], None]) -> Callable[[], bool]:
    """Return a function that estimates the time of all runs from steps of the first one.

    It returns True once it has printed the estimate, after some 20 steps.
    """

    def tell() -> bool:
        records = step_records(read_lines(run / "metrics.jsonl"))
        if not records or records[-1]["step"] - records[0]["step"] < _MEASURED_STEPS:
            return False
        seconds = (records[-1]["time"] - records[0]["time"]) / (
            records[-1]["step"] - records[0]["step"]
        )
        total = duration_text(seconds * plan.steps * plan.seeds)
        say(f"{plan.text}, about {total} in all, evaluations and scores not included")
        return True

    return tell
