"""Diagnose a run by its training and held-out losses: what it learned, and what to change."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.train.checkpoint.stored_checkpoint import step_of, steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.recorded_sets import LEARNED, read_sets
from clozeline.train.logs.display import heldout_title
from clozeline.train.logs.figures import Record, last_heldout, results, scores_of
from clozeline.train.logs.json_lines import read_lines

_MIN_RISE_SHARE: Final = 0.01
"""A held-out loss has risen if it is this share above its lowest value."""
_FAR_BELOW_SHARE: Final = 0.5
"""A training loss is far below the held-out loss at this share of it, or less."""
_FAR_BELOW_SHARE_AT_ONE_EVALUATION: Final = 0.1
"""The same for a run with one evaluation, which does not show whether the held-out loss rose."""
_MAX_MAJORITY_GAP: Final = 0.005
"""At most this far from the share of the most frequent label, a model always gives that label."""
_MAX_ENTROPY_GAP: Final = 0.1
"""At most this many nats above the unigram entropy, a model knows how frequent each label is."""
_EVALUATIONS_TO_CHOOSE_FROM: Final = 10
"""Evaluations that a message proposes for finding the best state of a run."""
_AVERAGED_SHARE: Final = 0.05
"""Share of the records over which a training loss is averaged: single batches are noise."""

Losses = Sequence[tuple[int, float]]
"""losses in nats by step, ascending; infinite where a loss was not finite"""


class Diagnosis(Enum):
    """What the losses of a run say."""

    MEMORIZED = "memorized"
    """the model memorized the training rows: their loss fell while the held-out loss rose or stayed
    high"""
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
    """The losses of a run, and the scores of a model that reads no input on the held-out rows."""

    training: Losses
    heldout: Losses
    entropy: float = 0.0
    """unigram entropy of the held-out labels in nats; 0 if the labels are numbers"""
    accuracy: float | None = None
    """share of the held-out labels that the model predicts at the end; None: not measured"""
    majority: float | None = None
    """share of the most frequent held-out label; None: not known"""
    accuracy_at_lowest: float | None = None
    """accuracy where the held-out loss was lowest; None: not measured"""

    @property
    def lowest(self) -> tuple[int, float] | None:
        """The step and value of the lowest held-out loss; None if no loss is finite."""
        finite = [entry for entry in self.heldout if math.isfinite(entry[1])]
        return min(finite, key=lambda entry: entry[1], default=None)

    @property
    def has_risen(self) -> bool:
        """Whether the held-out loss ended clearly above its lowest value."""
        if self.lowest is None:
            return False
        lowest = self.lowest[1]
        return self.heldout[-1][1] - lowest > _MIN_RISE_SHARE * abs(lowest)

    @property
    def accuracy_has_risen(self) -> bool:
        """Whether more labels are right at the end than where the held-out loss was lowest."""
        if self.accuracy is None or self.accuracy_at_lowest is None:
            return False
        return self.accuracy > self.accuracy_at_lowest

    def training_loss_at(self, step: int) -> float:
        """Return the mean training loss of the last records up to a step.

        Example: the losses 4, 3, 2, 1 at the steps 1 to 4 give 1.0 at step 4.
        """
        width = max(1, round(_AVERAGED_SHARE * len(self.training)))
        until = [loss for at, loss in self.training if at <= step] or [self.training[0][1]]
        return fmean(until[-width:])


def loss_history(records: Sequence[Record], name: str) -> LossHistory:
    """Return the training losses of a run, and its losses on the held-out set `name`."""
    training = [
        (record["step"], float(record["loss"]))
        for record in records
        if isinstance(record.get("step"), int) and isinstance(record.get("loss"), int | float)
    ]

    evaluated = [
        (record["step"], by_set[name]) for record in records if name in (by_set := results(record))
    ]
    # a set of another number of labels has taken its place
    evaluated = [
        each for each in evaluated if each[1].get("labels") == evaluated[-1][1].get("labels")
    ]
    heldout = [
        (step, math.inf if result["loss"] is None else float(result["loss"]))
        for step, result in evaluated
    ]
    history = LossHistory(training, heldout)
    if not evaluated:
        return history

    last = evaluated[-1][1]
    accuracies = {step: scores_of(result)[0] for step, result in evaluated}
    return replace(
        history,
        entropy=last.get("unigram_entropy") or 0.0,
        accuracy=accuracies[evaluated[-1][0]],
        majority=scores_of(last)[1],
        accuracy_at_lowest=None if history.lowest is None else accuracies[history.lowest[0]],
    )


def diagnose(history: LossHistory) -> Diagnosis | None:
    """Return what is wrong with a run by its losses; None if nothing is wrong or known."""
    if not history.heldout or not math.isfinite(history.heldout[-1][1]):
        return None
    if _is_memorized(history):
        return Diagnosis.MEMORIZED

    # compare the accuracy with the most frequent label, or the loss with the unigram entropy
    accuracy = history.accuracy
    majority = history.majority
    if accuracy is not None and majority is not None:
        if abs(accuracy - majority) < _MAX_MAJORITY_GAP:
            return Diagnosis.MAJORITY
        return Diagnosis.BELOW_MAJORITY if accuracy < majority else None

    last = history.heldout[-1][1]
    if not history.entropy or last < history.entropy or history.has_risen:
        return None
    is_near = last - history.entropy <= _MAX_ENTROPY_GAP
    return Diagnosis.FREQUENCIES if is_near else Diagnosis.ABOVE_FREQUENCIES


def _is_memorized(history: LossHistory) -> bool:
    """Return whether the training loss kept falling, but the held-out loss rose or stayed high."""
    if not history.training or history.lowest is None:
        return False
    step, last = history.heldout[-1]
    training = history.training_loss_at(step)
    if history.has_risen:
        at_lowest = history.training_loss_at(history.lowest[0])
        return training < at_lowest or training < _FAR_BELOW_SHARE * last
    if history.entropy and last >= history.entropy:
        return training < _FAR_BELOW_SHARE * last
    return len(history.heldout) == 1 and training < _FAR_BELOW_SHARE_AT_ONE_EVALUATION * last


def diagnose_run(config: TrainConfig, records: Sequence[Record] | None = None) -> list[str]:
    """Return the lowest loss on each held-out set of a run, and what to change.

    `records`: the records of its metrics.jsonl; default: read here.
    """
    if records is None:
        records = read_lines(config.output / "metrics.jsonl")
    tokens = max(
        (record["tokens"] for record in records if isinstance(record.get("tokens"), int)), default=0
    )
    saved = [step_of(path.name) for path in steps_in(config.output / "checkpoints")]
    objectives: list[ObjectiveRecord] = []
    with suppress(IntegrityError):  # sets.json cannot be read
        objectives = [recorded.objective for recorded in read_sets(config.output)]
    are_labeled = any(map(kind_of, objectives))
    is_mixture = any(other != objectives[0] for other in objectives)

    # one set at a time
    lines = []

    for name in last_heldout(records):
        history = loss_history(records, name)
        if is_mixture:  # the training loss is of other labels, too
            history = replace(history, training=[])
        of_set = [
            *describe_lowest(history, saved),
            *explain_diagnosis(history, config, are_labeled=are_labeled, tokens=tokens),
        ]
        title = heldout_title(name)
        lines += of_set if name == "heldout" else [f"{title}: {line}" for line in of_set]

    return lines


def explain_diagnosis(
    history: LossHistory, config: TrainConfig, *, are_labeled: bool, tokens: int
) -> list[str]:
    """Return the lines that say what is wrong and what to change; [] if nothing is.

    Args:
        history: the losses of the run.
        config: the run: a remedy never names a value that is set already.
        are_labeled: whether it was trained on labeled texts rather than on texts alone.
        tokens: tokens that it read.
    """
    diagnosis = diagnose(history)
    if diagnosis is None:
        return []
    more = "more rows" if are_labeled else "more texts"
    steps = config.steps
    rate = config.optimizer.options.learning_rate
    longer = (
        f"train on {more}, for more than {steps:,} steps, or with another learning rate (it was "
        f"{rate:g})"
    )

    # the training rows were memorized
    if diagnosis is Diagnosis.MEMORIZED:
        step, heldout = history.heldout[-1]
        losses = (
            f"the training loss is {history.training_loss_at(step):.4f}, the held-out loss "
            f"{heldout:.4f}"
        )
        lowest = history.lowest

        if history.accuracy_has_risen:
            return [
                f"learned by heart: {losses}; the accuracy still rose, and fewer steps would not "
                f"help: train on {more}"
            ]

        fewer = ""
        if history.has_risen and lowest is not None:
            fewer = f"train up to steps={lowest[0]}, or "
        elif len(history.heldout) == 1:  # fewer steps may be better, or not
            every = -(-step // _EVALUATIONS_TO_CHOOSE_FROM)
            fewer = (
                f"evaluate.every={every} checkpoint.keep_best=true keep its best state; or train "
            )
        if not (are_labeled or config.data.corrupt):
            more += ", or on new corruptions in each pass (data.corrupt)"
        return [f"learned by heart: {losses}: {fewer or 'train '}on {more}"]

    # no better than one label for all
    if diagnosis in (Diagnosis.MAJORITY, Diagnosis.BELOW_MAJORITY):
        problem = (
            "the model always gives about the same answer"
            if diagnosis is Diagnosis.MAJORITY
            else "the model is worse than always giving the most frequent label"
        )
        accuracies = (
            f"its accuracy is {history.accuracy:.4f}, the most frequent label alone has "
            f"{history.majority:.4f}"
        )
        return [f"{problem}: {accuracies}: {longer}"]

    # no better than the frequencies of the labels
    problem = "the model has learned only how frequent each label is"
    if diagnosis is Diagnosis.ABOVE_FREQUENCIES:
        problem = "the model has not even learned how frequent each label is"
    if not are_labeled and tokens < LEARNED:
        longer = (
            f"a small model may need {LEARNED:,} tokens, and this one read {tokens:,}: train "
            f"longer, on {more}"
        )

    return [f"{problem}: {longer}"]


def describe_lowest(history: LossHistory, saved: Sequence[int]) -> list[str]:
    """Return the line on the lowest held-out loss; [] for a run with fewer than two evaluations.

    `saved`: the steps of the checkpoints.
    """
    lowest = history.lowest
    if lowest is None or len(history.heldout) < 2:
        return []
    step, loss = lowest
    line = f"lowest held-out loss: {loss:.4f} at step {step}"
    if not history.has_risen:
        return [line]
    checkpoint = (
        "there is no checkpoint of it: checkpoint.keep_best=true keeps the best one of the first "
        "held-out set"
    )

    if step in saved:
        checkpoint = (
            f"its checkpoint is saved: commands take it by step={step}, or the best one by "
            "step=best"
        )

    return [f"{line}, rising since; {checkpoint}"]
