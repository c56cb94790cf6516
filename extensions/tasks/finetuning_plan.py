"""Plan a fine-tuning: seeds, steps and learning rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

from clozeline.configuration.config import load_config
from clozeline.errors import plural
from clozeline.extensions.tasks.readers import is_task
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig, passes_of
from clozeline.train.data.sets.finetuning import plan_learning_rate, plan_seeds, plan_task_steps
from clozeline.train.data.sets.recorded_sets import read_sets
from clozeline.train.logs.figures import last_heldout
from clozeline.train.logs.json_lines import read_lines

_ENOUGH: Final = 3.5
"""Nats below the unigram entropy up to which a count of words beat most of our bodies."""


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

    @property
    def line(self) -> str:
        """The plan in one line, with the keys that `auto` chose."""
        runs = f"{plural(self.seeds, 'seed')} × {self.steps:,} steps"
        conditions = f"{self.rows:,} rows, a body of width {self.width}"
        keys = f"; auto chose {', '.join(self.chosen)}" if self.chosen else ""
        return f"{runs}, learning rate {self.learning_rate:g}, for {conditions}{keys}"


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
    rows = sum(len(open_shards(folder)) for folder in sets)
    steps = config.steps
    rate = config.optimizer.options.learning_rate
    follows = {
        "seeds": seeds is None,
        "steps": steps == "auto",
        "optimizer.learning_rate": rate == "auto",
    }
    batch = config.data.global_batch
    if not isinstance(steps, int):
        passes = passes_of(steps)
        steps = ceil(passes * rows / batch) if passes else plan_task_steps(rows, batch)
    return FinetuningPlan(
        seeds=plan_seeds(rows) if seeds is None else seeds,
        steps=steps,
        learning_rate=plan_learning_rate(config.model.dim) if rate == "auto" else rate,
        rows=rows,
        width=config.model.dim,
        chosen=tuple(key for key, is_auto in follows.items() if is_auto),
    )


def note_on_body(body: Path) -> str | None:
    """Return a line for a run that learned too little for most tasks, by its held-out losses.

    The losses of a run that learned a task are none of texts.
    """
    results = last_heldout(read_lines(body / "metrics.jsonl")).values()
    gains = [
        result["unigram_entropy"] - result["loss"]
        for result in results
        if result["unigram_entropy"] and result["loss"] is not None
    ]
    gain = max(gains, default=_ENOUGH)
    if gain >= _ENOUGH or any(is_task(recorded.objective) for recorded in read_sets(body)):
        return None
    side = "below" if gain > 0 else "above"
    return (
        f"{body}: {abs(gain):.2f} nats {side} the unigram entropy of its held-out rows. "
        "Small bodies like this help to tag words, but for most classes of sentences a count of "
        f"words was better, up to {_ENOUGH:g} nats below it: pretrain longer, or on more text"
    )
