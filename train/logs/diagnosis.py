"""Diagnose a run from its training and held-out losses: what it learned, and what to change."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean
from typing import Any, Final

from clozeline.errors import IntegrityError
from clozeline.pipeline.tasks.readers import is_task
from clozeline.train.checkpoint.stored_checkpoint import step_of, steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.recorded_sets import LEARNED, read_sets
from clozeline.train.logs.curves import last_heldout, results
from clozeline.train.logs.display import heldout_title
from clozeline.train.logs.json_lines import read_lines

_RISE: Final = 0.01
"""Least rise of a held-out loss above its lowest value that is told, as a share of the value."""
_FAR_BELOW: Final = 0.5
"""Largest share of the held-out loss that a training loss far below it is."""
_LEARNED_ALONE: Final = 0.1
"""The same for a run that was evaluated once, where nothing says whether the held-out loss rose."""
_SAME_ACCURACY: Final = 0.005
"""Largest distance of the accuracy from the share of the most frequent label where a model always
gives that label."""
_NEAR: Final = 0.1
"""Most nats above the unigram entropy at which a model knows how frequent each label is."""
_WINDOW: Final = 0.05
"""Share of the records over which a training loss is averaged: single batches are noise."""

Record = Mapping[str, Any]
Losses = Sequence[tuple[int, float]]
"""losses in nats by step, ascending; infinite where a loss was not finite"""


class Diagnosis(Enum):
    """What the losses of a run say."""

    MEMORIZED = "memorized"
    """the training rows were learned by heart: their loss fell while the held-out loss rose or
    stayed high"""
    MAJORITY = "majority"
    """the model always gives the most frequent label"""
    BELOW_MAJORITY = "below_majority"
    """the model gives several labels, and is right less often than the most frequent label alone"""
    FREQUENCIES = "frequencies"
    """the model predicts how frequent each token is, whatever the context"""
    ABOVE_FREQUENCIES = "above_frequencies"
    """the model has not even learned how frequent each label is"""


@dataclass(frozen=True)
class LossHistory:
    """The losses of a run, and what a model without any input would reach on the held-out rows."""

    training: Losses
    heldout: Losses
    entropy: float = 0.0
    """unigram entropy of the held-out labels in nats; 0: they have none, as numbers"""
    accuracy: float | None = None
    """share of the held-out labels that the model predicts at the end; None: not measured"""
    majority: float | None = None
    """share of the most frequent held-out label; None: not known"""
    accuracy_at_lowest: float | None = None
    """accuracy where the held-out loss was lowest; None: not measured"""

    @property
    def lowest(self) -> tuple[int, float] | None:
        """The first step with the lowest held-out loss, and that loss; None without a finite one."""
        finite = [entry for entry in self.heldout if math.isfinite(entry[1])]
        return min(finite, key=lambda entry: entry[1], default=None)

    @property
    def has_risen(self) -> bool:
        """Whether the held-out loss ended clearly above its lowest value."""
        if self.lowest is None:
            return False
        lowest = self.lowest[1]
        return self.heldout[-1][1] - lowest > _RISE * abs(lowest)

    @property
    def accuracy_has_risen(self) -> bool:
        """Whether more labels are right at the end than where the held-out loss was lowest."""
        if self.accuracy is None or self.accuracy_at_lowest is None:
            return False
        return self.accuracy > self.accuracy_at_lowest

    def training_near(self, step: int) -> float:
        """Return the mean training loss of the records up to a step, over a share of all records.

        Example: of the losses 4, 3, 2, 1 at the steps 1 to 4, 1.0 near step 4.
        """
        width = max(1, round(_WINDOW * len(self.training)))
        until = [loss for at, loss in self.training if at <= step] or [self.training[0][1]]
        return fmean(until[-width:])


def history_of(records: Sequence[Record], name: str) -> LossHistory:
    """Return the losses of the records of a run, the held-out ones on the set `name`."""
    training = [
        (record["step"], float(record["loss"]))
        for record in records
        if isinstance(record.get("step"), int) and isinstance(record.get("loss"), int | float)
    ]
    evaluated = [
        (record["step"], found[name]) for record in records if name in (found := results(record))
    ]
    heldout = [
        (step, math.inf if result["loss"] is None else float(result["loss"]))
        for step, result in evaluated
    ]
    history = LossHistory(training, heldout)
    if not evaluated:
        return history
    last = evaluated[-1][1]
    heads = list(last.get("losses", {}))
    alone = heads[0] if len(heads) == 1 else ""
    accuracies = {
        step: result.get("figures", {}).get(f"{alone}/accuracy") for step, result in evaluated
    }
    return replace(
        history,
        entropy=last.get("unigram_entropy") or 0.0,
        accuracy=accuracies[evaluated[-1][0]],
        majority=last.get("majorities", {}).get(alone),
        accuracy_at_lowest=None if history.lowest is None else accuracies[history.lowest[0]],
    )


def diagnose(history: LossHistory) -> Diagnosis | None:
    """Return what the losses say about a run; None if nothing is wrong, or nothing is known."""
    if not history.heldout:
        return None
    if _is_memorized(history):
        return Diagnosis.MEMORIZED
    accuracy = history.accuracy
    majority = history.majority
    if accuracy is not None and majority is not None:
        if abs(accuracy - majority) < _SAME_ACCURACY:
            return Diagnosis.MAJORITY
        return Diagnosis.BELOW_MAJORITY if accuracy < majority else None
    last = history.heldout[-1][1]
    if not history.entropy or last < history.entropy or history.has_risen:
        return None
    return Diagnosis.FREQUENCIES if last - history.entropy <= _NEAR else Diagnosis.ABOVE_FREQUENCIES


def _is_memorized(history: LossHistory) -> bool:
    """Return whether the training loss fell on while the held-out loss rose, or far below one that helps nobody."""
    if not history.training or history.lowest is None or not math.isfinite(history.heldout[-1][1]):
        return False
    step, last = history.heldout[-1]
    now = history.training_near(step)
    if history.has_risen:
        return now < history.training_near(history.lowest[0]) or now < _FAR_BELOW * last
    if history.entropy and last >= history.entropy:
        return now < _FAR_BELOW * last
    return len(history.heldout) == 1 and now < _LEARNED_ALONE * last


def diagnose_run(config: TrainConfig, records: Sequence[Record] | None = None) -> list[str]:
    """Return what the records of a run say about each of its held-out sets: the lowest loss, and what to change.

    `records`: those of its metrics.jsonl; default: read here.
    """
    if records is None:
        records = read_lines(config.output / "metrics.jsonl")
    tokens = max(
        (record["tokens"] for record in records if isinstance(record.get("tokens"), int)), default=0
    )
    saved = [step_of(path.name) for path in steps_in(config.output / "checkpoints")]
    of_task = _reads_task(config)
    lines = []
    for name in last_heldout(records):
        history = history_of(records, name)
        told = [
            *describe_lowest(history, saved),
            *explain(history, config, of_task=of_task, tokens=tokens),
        ]
        title = heldout_title(name)
        lines += told if name == "heldout" else [f"{title}: {line}" for line in told]
    return lines


def _reads_task(config: TrainConfig) -> bool:
    """Return whether a run is trained on rows of a task; texts, where its record of the sets cannot be read."""
    with suppress(IntegrityError):
        return any(is_task(recorded.objective) for recorded in read_sets(config.output))
    return False


def explain(history: LossHistory, config: TrainConfig, *, of_task: bool, tokens: int) -> list[str]:
    """Return the lines that tell a finding and what to change; none without a finding.

    Args:
        history: the losses of the run.
        config: of the run: a remedy never names a value that is set already.
        of_task: whether it was trained on rows of a task rather than on texts.
        tokens: that it read.
    """
    finding = diagnose(history)
    if finding is None:
        return []
    more = "more rows" if of_task else "more texts"
    steps = config.steps
    rate = config.optimizer.options.learning_rate
    longer = (
        f"train on {more}, longer than {steps:,} steps, or with another learning rate than {rate:g}"
    )
    if finding is Diagnosis.MEMORIZED:
        step, heldout = history.heldout[-1]
        gap = (
            f"the training loss is {history.training_near(step):.4f}, the held-out loss "
            f"{heldout:.4f}"
        )
        lowest = history.lowest
        fewer = f"train fewer steps than {steps:,}"
        if history.accuracy_has_risen:
            return [
                f"learned by heart: {gap}; its accuracy still rose, so that fewer steps do not "
                f"help: train on {more}"
            ]
        if history.has_risen and lowest is not None:
            fewer = f"train up to steps={lowest[0]}"
        if not (of_task or config.data.corrupt):
            more += ", or on new corruptions in each pass (data.corrupt)"
        return [f"learned by heart: {gap}: {fewer}, or on {more}"]
    if finding in (Diagnosis.MAJORITY, Diagnosis.BELOW_MAJORITY):
        is_same = finding is Diagnosis.MAJORITY
        known = (
            "the model always gives about the same answer"
            if is_same
            else "worse than one label for all"
        )
        known += f": its accuracy is {history.accuracy:.4f}, the most frequent label alone has {history.majority:.4f}"
        return [f"{known}: {longer}"]
    known = "the model knows how frequent each label is, and no more"
    if finding is Diagnosis.ABOVE_FREQUENCIES:
        known = "above the unigram entropy: the model has not learned how frequent each label is"
    if not of_task and tokens < LEARNED:
        longer = (
            f"a small one needs about {LEARNED:,} tokens, this one read {tokens:,}: train longer, "
            f"on {more}"
        )
    return [f"{known}: {longer}"]


def describe_lowest(history: LossHistory, saved: Sequence[int]) -> list[str]:
    """Return the line that names the lowest held-out loss and its step, of a run with several evaluations.

    `saved`: the steps of the checkpoints.
    """
    lowest = history.lowest
    if lowest is None or len(history.heldout) < 2:
        return []
    step, loss = lowest
    line = f"lowest held-out loss: {loss:.4f} at step {step}"
    if not history.has_risen:
        return [line]
    kept = "its checkpoint was not kept: checkpoint.keep_best=true keeps it"
    if step in saved:
        kept = (
            f"its checkpoint is kept: step={step} names it to `clozeline evaluate` and others, "
            "step=best the best one"
        )
    return [f"{line}, rising since; {kept}"]
