"""Predict rows without labels, or one text, with a fine-tuned run.

    clozeline predict tuned/seed-0 'A text.'
    clozeline predict tuned/seed-0 input=texts.csv output=answers.csv

A text alone is answered on the terminal; a pair is `text='…' text_pair='…'`, a question
`question='…' context='…'`.

The input is CSV, TSV, JSON lines or Parquet with the columns of the training task, or those that
`text`, `text_pair`, `words`, `question`, `context`, `choices` and `source` name; also the official
layout of the task, such as SQuAD's JSON and CoNLL's columns, and lines of text in .txt. The output
has a row for every row of the input, in order, as JSON lines, CSV, TSV or Parquet by its suffix.
`layout` writes an official file: a GLUE submission or SQuAD's `{id: text}`. Rows are streamed; a
killed command continues where it stopped, and ends with the same bytes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.tasks.prediction_files import (
    TRUNCATED,
    Layout,
    check_output,
    flat_record,
    keeping_parts,
    read_parts,
    write_output,
    write_part,
)
from clozeline.extensions.tasks.readers import TaskReader
from clozeline.extensions.tasks.task_run import TaskRun, open_task_run
from clozeline.extensions.tasks.unlabeled_rows import (
    InputColumns,
    Item,
    build_rows,
    read_unlabeled,
    task_reader,
    task_rows,
)
from clozeline.files import file_hash
from clozeline.tools.command import InputFile, OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.runs.data.run_sets import MovedSets
from clozeline.tools.start.multirun.runner import claim_folder

if TYPE_CHECKING:
    from clozeline.extensions.tasks.task_heads._task_head import Record


@config_class
class PredictOptions(CheckpointChoice, MovedSets, RunArgument):
    """Rows to predict, and the file to write; or the texts of one row."""

    input: InputFile | None = None
    """file with the rows: CSV, TSV, JSON, Parquet, Arrow, the task's official layout, or lines of
    text (.txt)"""
    output: OutputPath | None = None
    """file for the predictions: .jsonl, .csv, .tsv or .parquet, or any name with `layout`"""
    text: Annotated[Names, Positional(1)] = field(default_factory=list)
    """the text; with `input` its column, by default that of the training task. Several are joined
    by a space. The same holds for the following keys"""
    text_pair: Names = field(default_factory=list)
    """column of the second text of a pair"""
    words: Names = field(default_factory=list)
    """column of the words to tag: a list, or a text split at white space"""
    question: Names = field(default_factory=list)
    """column of the question"""
    context: Names = field(default_factory=list)
    """column of the text with the answer, or before the choices"""
    choices: Names = field(default_factory=list)
    """column of a list of choices, or the columns of single ones"""
    source: Names = field(default_factory=list)
    """column of the text from which to generate"""
    id: str | None = None
    """column to copy as `id`; null: none"""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """character between the fields of a table with quotes; null: a comma in .csv, a tab without
    quotes in .tsv"""
    columns: list[str] = field(default_factory=list)
    """names of the columns of a CSV or TSV file without a header"""
    layout: Layout | None = None
    """official layout to write: glue or squad"""
    part_rows: Positive = 4096
    """rows held in memory at a time, after which a killed command continues"""

    def __post_init__(self) -> None:
        of_files = (self.output, self.id, self.delimiter, self.columns, self.layout)
        if any(of_files) if self.input is None else self.output is None:
            raise ValueError("expected input=FILE output=FILE, or a text without keys of files")


_TEXT_OPTIONS = ("text", "text_pair", "words", "question", "context", "choices", "source")
"""Options with the texts of a row, or their columns."""
_NOT_PREDICTED = ("run", "data", "input", "output", "step")
"""Options that predictions do not depend on, but on the checkpoint and the bytes of the input."""


def print_prediction(options: PredictOptions) -> None:
    """Print what is predicted for the texts of one row."""
    opened = open_task_run(options.run, "train", step=options.step, set_paths=options.data)
    builder = task_rows(opened)
    needed, optional = builder.inputs
    given = {name: texts for name in _TEXT_OPTIONS if (texts := getattr(options, name))}
    if not {*needed} <= given.keys() <= {*needed, *optional}:
        words = " ".join(f"{name}='…'" for name in needed)
        raise ConfigurationError(
            f"{options.run}: expected {' and '.join(needed)}, got {', '.join(given) or 'none'}: "
            f"clozeline predict {options.run} {words}, or input=FILE output=FILE"
        )
    values = {
        name: texts if name == "choices" else [" ".join(texts)] for name, texts in given.items()
    }
    reader = task_reader(opened.train.manifest)
    (record,) = _records_of(opened, reader, [(builder.item(values, reader, 0, None), None)], 0)
    if "rejected" in record:
        raise ConfigurationError(f"{', '.join(given)}: no prediction: {record['rejected']}")
    del record["row"]
    sys.stdout.writelines(f"{name}: {value}\n" for name, value in flat_record(record).items())


def predict(options: PredictOptions, source: Path, output: Path) -> Counter[str]:
    """Write the predictions of all rows of a file, and count them.

    Returns:
        the number of `rows`, of `truncated` rows, which are longer than the rows of training, and
        of rows without a prediction by reason.
    """
    opened = open_task_run(options.run, "train", step=options.step, set_paths=options.data)
    check_output(output, options.layout, opened.answer)
    keys = {name: names for name in _TEXT_OPTIONS if (names := getattr(options, name))}
    columns = InputColumns(keys, options.id, options.delimiter, options.columns)
    reader = task_reader(opened.train.manifest)
    folder = output.with_name(f"{output.name}.parts")
    facts = {"checkpoint": opened.trained.digest, "input": file_hash(source)}
    claim_folder(folder / "predict.json", options, *_NOT_PREDICTED, results="*.jsonl", **facts)
    first = 0
    paths: list[Path] = []
    counts = Counter[str]()

    with keeping_parts(folder):
        items = iter(read_unlabeled(source, task_rows(opened), reader, columns))
        while group := list(islice(items, options.part_rows)):
            paths.append(folder / f"{len(paths):06}.jsonl")
            if not paths[-1].exists():
                write_part(paths[-1], _records_of(opened, reader, group, first))
            first = first + len(group)

        if not first:
            raise ConfigurationError(f"input: {source}: expected rows to predict, got none")
        counts["rows"] = first

        for record in read_parts(paths):
            if TRUNCATED in record:
                counts["truncated"] += 1
            if "rejected" in record:
                counts[record["rejected"]] += 1

        write_output(output, options.layout, read_parts(paths), opened.answer)

    return counts


def _records_of(
    opened: TaskRun, reader: TaskReader, group: Sequence[Item], first: int
) -> list[Record]:
    """Return the records of some rows in their order; rows without a prediction say why."""
    items = [item for item, _ in group]
    answer = opened.answer
    rows, uids, missing, truncated = build_rows(task_rows(opened), reader, items)
    records = {
        number: {"rejected": reason, **answer.empty(items[number])}
        for number, reason in missing.items()
    }
    if len(rows):
        for row, record in answer.records(opened.task, rows, answer.predict(opened.task, rows)):
            number = uids[rows.fixed["document_uid"][row].tobytes()]
            records[number] = answer.as_given(record, items[number], reader.form)

    for item_number, tokens in truncated.items():
        records[item_number][TRUNCATED] = tokens
    return [
        {"row": first + number, **({} if key is None else {"id": key}), **records[number]}
        for number, (_, key) in enumerate(group)
    ]


def _predict(options: PredictOptions) -> None:
    if options.input is None or options.output is None:
        print_prediction(options)
        return
    counts = predict(options, options.input, options.output)
    rows = counts.pop("rows")
    truncated = counts.pop("truncated", 0)
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
    written = f"{options.output}: {plural(rows, 'row')}; truncated: {truncated or 'none'}"
    sys.stdout.write(f"{written}; without a prediction: {rejected or 'none'}\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, PredictOptions, _predict)


if __name__ == "__main__":
    run_as_script(main)
