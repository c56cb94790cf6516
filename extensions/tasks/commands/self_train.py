"""Self-train in rounds.

    clozeline self-train mine/run task=sst2 train=train.tsv unlabeled=new.tsv dev=dev.tsv output=st

Round 0 fine-tunes BODY on the labeled rows. In each later round, the model of the round before
labels the texts of `unlabeled`, and BODY is fine-tuned again, on the labeled rows and the labels
with a probability of at least `threshold`. It stops when `dev` was not scored higher for `patience`
rounds, when the labels hardly change, or after `rounds`. Other words go to every training, as in
`clozeline finetune`. The same command resumes; `rounds` and `patience` may be raised. Each round is
a folder for `clozeline finetune compare=DIR/round-0 compare=DIR/round-1`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from clozeline.command_line import OtherKeys, Positional
from clozeline.configuration.config import config_class, to_data
from clozeline.extensions.tasks.finetuning_scores import read_scored, scores_path
from clozeline.files import publish_json
from clozeline.pipeline.tables import read_list
from clozeline.terminal import align_rows
from clozeline.tools.command import (
    InputFile,
    ModelPath,
    OutputPath,
    Positive,
    run_as_script,
    run_tool,
)
from clozeline.tools.start.multirun.runner import PlannedCommand, claim_folder, run_plan
from clozeline.train.configuration.config import with_absolute_paths

_STABLE_LABEL_SHARE: Final = 0.01
"""Share of changed labels below which another round would give the same student."""


@config_class
class SelfTrainOptions:
    """A model, a task with its files, and the rounds."""

    body: Annotated[ModelPath, Positional(0)]
    """a run, or a folder with a model"""
    task: str
    """recipe of a task with a class per row, of the reader glue or labeled: sst2, labels, or a
    folder with a pipeline.yaml and a train.yaml"""
    train: InputFile
    """file with the labeled rows"""
    unlabeled: InputFile
    """file with one text per line, or the two of a pair separated by a tab; a first line with the
    names of the task's text columns is a header"""
    dev: InputFile
    """file with the rows whose score decides when to stop"""
    output: OutputPath
    """folder for all rounds"""
    rounds: Positive = 5
    """most rounds after the first training"""
    patience: Positive = 1
    """rounds without a higher score after which it stops"""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.9
    """lowest probability of a label to train on"""
    per_class: Positive | None = None
    """maximum rows per class in a round, the most probable ones; default: all"""
    words: Annotated[tuple[str, ...], OtherKeys("keys of the trainings")] = ()


class Round(NamedTuple):
    """Results of a round."""

    labels: int
    """rows labeled by the model of the round before"""
    changed: float | None
    """share of these rows that the round before lacks or labels otherwise, and vice versa; None: it
    had none"""
    metrics: dict[str, float]
    """scores on dev; the first one decides"""

    @property
    def score(self) -> float:
        """The metric that decides."""
        return next(iter(self.metrics.values()))


def reason_to_stop(rounds: Sequence[Round], most: int, patience: int) -> str | None:
    """Return why no other round follows, None if one does.

    Example:
        >>> found = [Round(0, None, {"accuracy": 0.7}), Round(90, None, {"accuracy": 0.7})]
        >>> reason_to_stop(found, most=5, patience=1), reason_to_stop(found, most=5, patience=2)
        ('no higher score for 1 round', None)
    """
    scores = [result.score for result in rounds]
    without = len(scores) - 1 - scores.index(max(scores))
    if without >= patience:
        return f"no higher score for {without} round{'s' if without > 1 else ''}"
    if rounds[-1].changed is not None and rounds[-1].changed < _STABLE_LABEL_SHARE:
        return f"fewer than {_STABLE_LABEL_SHARE:.0%} of the labels changed"
    return f"{most} rounds, as `rounds` says" if len(rounds) > most else None


def self_train(options: SelfTrainOptions) -> list[Round]:
    """Run the rounds that are missing, record each in rounds.json, and return all."""
    options = with_absolute_paths(options)
    output = options.output
    claim_folder(output / "self-train.json", options, "output", "rounds", "patience")
    data = to_data(options)
    student = [f"{key}={data[key]}" for key in ("task", "train", "dev")]
    kept = [f"{key}={json.dumps(data[key])}" for key in ("threshold", "per_class")]
    rounds: list[Round] = []
    rows = Counter[str]()
    """how often each labeled row is in the file; a text may be there several times"""

    while not rounds or reason_to_stop(rounds, options.rounds, options.patience) is None:
        folder = output / f"round-{len(rounds)}"
        before = output / f"round-{len(rounds) - 1}"
        labels = output / f"{folder.name}.jsonl"
        words = [f"input={options.unlabeled}", f"output={labels}", *kept]
        counts = output / f"{labels.name}.json"
        results = {counts: None, labels: None}
        label = PlannedCommand(["pseudo-label", before / "seed-0", *words], results)
        words = [*student, f"output={folder}", "seeds=1", *options.words]
        words += [f"pseudo={labels}"] if rounds else []
        finetune = PlannedCommand(
            ["finetune", options.body, *words], {scores_path(folder, "dev", 0): None}
        )
        if not counts.exists():
            labels.unlink(missing_ok=True)  # of a killed command
        run_plan([label, finetune] if rounds else [finetune])
        metrics = dict(read_scored(folder)[0].scores["metrics"])
        earlier, rows = rows, Counter(read_list(labels, "none") if rounds else ())
        changed = (
            ((rows - earlier) + (earlier - rows)).total() / (rows | earlier).total()
            if earlier
            else None
        )

        rounds.append(Round(rows.total(), changed, metrics))
        publish_json(output / "rounds.json", [result._asdict() for result in rounds])

    return rounds


def table_lines(rounds: Sequence[Round], reason: str) -> Iterator[str]:
    """Yield a table of the rounds, and why the last one was the last."""
    best = max(range(len(rounds)), key=lambda number: rounds[number].score)
    table = [["round", "labels", "changed", *rounds[0].metrics, ""]]
    for number, (labels, changed, metrics) in enumerate(rounds):
        share = "-" if changed is None else f"{changed:.1%}"
        scores = (f"{score:.4f}" for score in metrics.values())
        table.append([str(number), f"{labels:,}", share, *scores, "best" if number == best else ""])
    yield from align_rows(table, right=True)
    yield f"stopped: {reason}; the best run is round-{best}/seed-0"


def _run(options: SelfTrainOptions) -> None:
    rounds = self_train(options)
    reason = reason_to_stop(rounds, options.rounds, options.patience)
    print(*table_lines(rounds, str(reason)), sep="\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, SelfTrainOptions, _run)


if __name__ == "__main__":
    run_as_script(main)
