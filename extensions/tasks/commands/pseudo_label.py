"""Label texts with a fine-tuned run, for self-training.

    clozeline pseudo-label tuned/seed-0 input=texts.csv output=labeled.csv

The input is a file as `clozeline predict` reads it: a table with the text columns of the task, or
in .txt one text per line, or the two texts of a pair separated by a tab. Each gets the class with
the highest probability; rows with a probability of at least `threshold` are written in the format
of the run's task. With several classes per row, a text gets those above one half, and each decision
for or against a class must be that probable. `clozeline finetune ... pseudo=FILE` trains on that
file in addition to the labeled one. FILE.json counts the written rows, and skipped rows by reason.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

from pydantic import Field

from clozeline.command_line import refuse_overwriting
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.tasks.readers import LabeledText, Rejected, TaskItem, TaskReader
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.extensions.tasks.task_run import TaskRun, open_task_run
from clozeline.extensions.tasks.unlabeled_rows import (
    InputColumns,
    build_rows,
    read_unlabeled,
    task_reader,
    task_rows,
)
from clozeline.files import file_hash, publish_json, publish_text
from clozeline.tools.command import InputFile, OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.runs.data.run_sets import MovedSets


@dataclass(frozen=True, slots=True)
class LabeledByModel:
    """A text, and the class or classes that a model assigns."""

    item: LabeledText
    classes: tuple[int, ...]
    """index of the class; with several classes per row, of those above one half"""
    probability: float
    """of the class; with several per row, of the least certain decision for or against a class"""


@config_class
class PseudoLabelOptions(CheckpointChoice, MovedSets, RunArgument):
    """Texts to label, and which labels to keep."""

    input: InputFile
    """table with the task's text columns, or .txt with one text per line, or the two of a pair
    separated by a tab"""
    output: OutputPath
    """file for the labeled rows, such as pseudo.jsonl; FILE.json gets the counts"""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.9
    """lowest probability of a label to keep"""
    per_class: Positive | None = None
    """maximum rows per class, or per combination of classes, the most probable ones; default:
    all"""


def pseudo_label(options: PseudoLabelOptions) -> dict[str, Any]:
    """Write the labeled rows, and return the counts that FILE.json gets."""
    run = options.run
    counts_file = options.output.with_name(f"{options.output.name}.json")
    refuse_overwriting({"output": counts_file, "input": options.input})
    opened = open_task_run(run, "train", step=options.step, set_paths=options.data)
    if not opened.answer.pseudo_labels:
        raise ConfigurationError(
            f"{run}: expected a run that classifies texts, got one with a head {opened.head}"
        )

    reader = task_reader(opened.train.manifest)
    unlabeled = read_unlabeled(options.input, task_rows(opened), reader, InputColumns())
    items = [item for item, _ in unlabeled]
    judged, missing = label_texts(opened, reader, items)

    if not judged:
        raise ConfigurationError(
            f"input: {options.input}: expected texts, got none: {dict(missing)}"
        )

    selected, dropped = select(judged, options.threshold, options.per_class)

    if not selected:
        raise ConfigurationError(
            f"{options.input}: no row has a label with a probability of {options.threshold:g}: "
            "lower the threshold"
        )

    assert isinstance(reader, LabeledReader), "as those of all classes"

    rows = [
        replace(row.item, label=next(iter(row.classes), None), target=None, classes=row.classes)
        for row in selected
    ]
    lines = list(reader.format_lines(rows))
    publish_text(options.output, "".join(f"{line}\n" for line in lines))
    names = opened.facts.labels
    counts = {
        "run": str(run.resolve()),
        **opened.trained.provenance,
        "task": opened.facts.name,
        "input": {options.input.name: file_hash(options.input)},
        "output": {options.output.name: file_hash(options.output)},
        "threshold": options.threshold,
        "per_class": options.per_class,
        "rows_in": len(items),
        "skipped": {**missing, **dropped},
        "rows_out": len(selected),
        "labeled": {
            names[label]: number
            for label, number in sorted(Counter(chain(*(row.classes for row in selected))).items())
        },
    }

    publish_json(counts_file, counts)
    return counts


def label_texts(
    opened: TaskRun, reader: TaskReader, items: Sequence[TaskItem | Rejected]
) -> tuple[list[LabeledByModel], Counter[str]]:
    """Return the class of each text, in order, and the number of items without one, by reason."""
    rows, uids, missing, _ = build_rows(task_rows(opened), reader, items)
    judged = []
    for row, prediction in opened.answer.predict(opened.task, rows).items() if len(rows) else ():
        item = items[uids[rows.fixed["document_uid"][row].tobytes()]]
        assert isinstance(item, LabeledText), "of a task of classes"
        judged.append(LabeledByModel(item, *opened.answer.certain_classes(prediction)))
    return sorted(judged, key=lambda row: row.item.index), Counter(missing.values())


def select(
    judged: Sequence[LabeledByModel], threshold: float, per_class: int | None
) -> tuple[list[LabeledByModel], dict[str, int]]:
    """Return the rows to keep, in order, and how many are dropped, by reason.

    Example:
        >>> from clozeline.extensions.tasks.readers import LabeledText
        >>> items = [LabeledText((text,), None, None, line) for line, text in enumerate("abcd")]
        >>> shares = (0.91, 0.5, 0.99, 0.95)
        >>> rows = [LabeledByModel(item, (0,), p) for item, p in zip(items, shares, strict=True)]
        >>> kept, dropped = select(rows, 0.9, per_class=2)
        >>> [row.item.index for row in kept], dropped
        ([2, 3], {'beyond_per_class': 1, 'below_threshold': 1})
    """
    kept = []
    of_class = Counter[tuple[int, ...]]()
    dropped = Counter[str]()

    for row in sorted(judged, key=lambda row: (-row.probability, row.item.index)):
        if row.probability < threshold:
            dropped["below_threshold"] += 1
        elif of_class[row.classes] == per_class:
            dropped["beyond_per_class"] += 1
        else:
            of_class[row.classes] += 1
            kept.append(row)

    return sorted(kept, key=lambda row: row.item.index), dict(dropped)


def _label(options: PseudoLabelOptions) -> None:
    counts = pseudo_label(options)
    per_label = ", ".join(f"{name} {number:,}" for name, number in counts["labeled"].items())
    skipped = ", ".join(f"{name} {number:,}" for name, number in counts["skipped"].items())
    sys.stdout.write(
        f"{options.output}: {plural(counts['rows_out'], 'row')} of {counts['rows_in']:,} labeled "
        f"({per_label}); not written: {skipped or 'none'}\n"
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, PseudoLabelOptions, _label)


if __name__ == "__main__":
    run_as_script(main)
