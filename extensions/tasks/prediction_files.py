"""Write predictions to part files, which a killed command leaves complete, then to one output file.

The output file holds JSON lines, a table, or the layout that a benchmark (GLUE, SQuAD) prescribes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TextIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet

from clozeline.command_line import refuse_overwriting
from clozeline.errors import ConfigurationError
from clozeline.files import parse_json, publish, publish_text

if TYPE_CHECKING:
    from clozeline.extensions.tasks.task_heads._task_head import Record, TaskHead

Layout: TypeAlias = Literal["glue", "squad"]
_SUFFIXES: Final = (".jsonl", ".csv", ".tsv", ".parquet")
TRUNCATED: Final = "truncated_tokens"
"""Column with the number of tokens that the model has not read, because the row to predict is
longer than the rows that the model was trained on."""
_ROW_GROUP_ROWS: Final = 4096
"""Number of rows in each row group of a Parquet file."""


@contextmanager
def keeping_parts(folder: Path) -> Iterator[None]:
    """Remove the folder of the parts at the end, also of a ConfigurationError.

    The user will correct that command, which then predicts something else; any other end leaves the
    parts to the same command.
    """
    try:
        yield
    except ConfigurationError:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def write_part(path: Path, records: Iterable[Record]) -> None:
    """Write a part of the predictions; a file that exists is complete."""
    lines = (f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    publish_text(path, "".join(lines))


def read_parts(paths: Iterable[Path]) -> Iterator[Record]:
    """Yield the records of parts."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            yield from map(parse_json, lines)


def check_output(output: Path, layout: Layout | None, task_head: TaskHead) -> None:
    """Raise ConfigurationError for an output file that cannot be written.

    Its suffix is unknown, or its layout belongs to another task than the task of the run.
    """
    if layout is None and output.suffix not in _SUFFIXES:
        raise ConfigurationError(
            f"output: {output}: expected a file that ends in {', '.join(_SUFFIXES)}"
        )

    refuse_overwriting({"output": _na_prob_file(output)} if layout == "squad" else {})
    if layout not in (None, task_head.layout):
        advice = (
            f"expected {task_head.layout}"
            if task_head.layout
            else "write .jsonl, .csv or .parquet instead"
        )
        raise ConfigurationError(
            f"layout={layout}: the run predicts {task_head.metadata.head}: {advice}"
        )


def write_output(
    output: Path, layout: Layout | None, records: Iterable[Record], task_head: TaskHead
) -> None:
    """Write all predictions to one file, in bounded memory except for the JSON object of SQuAD."""
    if layout is None and output.suffix == ".parquet":
        with publish(output) as temporary:
            _write_parquet(temporary, records, task_head)
        return

    with publish(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if layout == "glue":
            file.write("index\tprediction\n")
            for record in records:
                key = _cell("id", record.get("id", record["row"]), "\t")
                file.write(f"{key}\t{_glue_answer(record)}\n")
        elif layout == "squad":
            _write_squad(output, file, records, unanswerable=task_head.metadata.unanswerable)
        elif output.suffix == ".jsonl":
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
        else:
            columns = columns_of(task_head)
            mark = "\t" if output.suffix == ".tsv" else ","
            for cells in chain([{name: name for name in columns}], map(flat_record, records)):
                texts = [_cell(name, cells.get(name), mark) for name in columns]
                file.write(mark.join(texts) + "\n")


def _cell(name: str, value: object, mark: str) -> str:
    """Return a value between two marks: in quotes between commas; tabs have none."""
    text = "" if value is None else str(value)
    if isinstance(value, list):
        text = json.dumps(value, ensure_ascii=False)
    if not {*text} & {mark, "\r", "\n", '"' if mark == "," else mark}:
        return text
    if mark == ",":
        return '"{}"'.format(text.replace('"', '""'))
    raise ConfigurationError(
        f"{name}: {text!r} has a tab or a line end, which a .tsv file cannot hold: write .jsonl, "
        ".csv or .parquet"
    )


def columns_of(task_head: TaskHead) -> dict[str, type]:
    """Return the columns of a table of predictions with their types."""
    return {"row": int, "id": str, **task_head.fields(), TRUNCATED: int, "rejected": str}


def flat_record(record: Mapping[str, object]) -> Record:
    """Return a record as cells of a table.

    Probabilities have one column per label class.
    """
    cells: Record = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            cells |= {f"probability_{label}": number for label, number in value.items()}
        else:
            cells[name] = value
    return cells


def _write_parquet(path: Path, records: Iterable[Record], task_head: TaskHead) -> None:
    """Write a table in row groups; every column has one type, whatever the rows hold."""
    types = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    types |= {list[str]: pa.list_(pa.string()), list[float]: pa.list_(pa.float64())}
    schema = pa.schema(
        [(name, types[column_type]) for name, column_type in columns_of(task_head).items()]
    )
    rows: list[Record] = []

    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for record in records:
            cells = flat_record(record)
            rows.append({**cells, "id": None if cells.get("id") is None else str(cells["id"])})
            if len(rows) == _ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema))


def _na_prob_file(output: Path) -> Path:
    return output.with_name(f"{output.stem}.na_prob.json")


def _write_squad(
    output: Path, file: TextIO, records: Iterable[Record], *, unanswerable: bool
) -> None:
    """Write `{id: text}`; for SQuAD 2.0, also write a second file, NAME.na_prob.json.

    The second file holds `{id: probability that the question has no answer}`.
    """
    answers = {}
    no_answer_probabilities = {}

    for record in records:
        key = str(record.get("id", record["row"]))
        answers[key] = record.get("answer", "")
        no_answer_probabilities[key] = record.get("na_prob", 1.0)

    file.write(json.dumps(answers, ensure_ascii=False) + "\n")

    if unanswerable:
        publish_text(
            _na_prob_file(output),
            json.dumps(no_answer_probabilities, ensure_ascii=False) + "\n",
        )


def _glue_answer(record: Record) -> str:
    if "rejected" in record:
        raise ConfigurationError(
            f"layout=glue: row {record['row']} has no prediction ({record['rejected']}): a "
            "submission needs all rows; repair the row"
        )
    return str(record["label"]) if "label" in record else f"{record['score']:.3f}"
