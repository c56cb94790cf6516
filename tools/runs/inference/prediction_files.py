"""Write predictions in parts that survive a kill, then as one file: JSON lines, a table, or an official layout."""

import csv
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json, publish, publish_json, publish_text, read_json
from clozeline.pipeline.tasks.readers import TaskFacts

Record: TypeAlias = dict[str, Any]
Layout: TypeAlias = Literal["glue", "squad"]
_SUFFIXES: Final = (".jsonl", ".csv", ".tsv", ".parquet")
_HEADS: Final[Mapping[Layout, tuple[str, ...]]] = {"glue": ("classification", "regression"), "squad": ("span",)}
"""Heads whose predictions an official layout holds."""
_FACTS: Final = "predict.json"


class PredictionParts:
    """Parts of the predictions for one input, in a folder next to the output until all are written.

    A part that exists is complete, so that a killed run continues with the next one.
    """

    def __init__(self, output: Path, facts: Mapping[str, Any]) -> None:
        self.folder = output.with_name(f"{output.name}.parts")
        stored = read_json(self.folder / _FACTS)
        if stored is not None and stored != dict(facts):
            changed = sorted(name for name in {*stored, *facts} if stored.get(name) != facts.get(name))
            raise ConfigurationError(
                f"{self.folder}: holds parts of another prediction ({', '.join(changed)} differ): remove the folder, "
                "or choose another output"
            )
        publish_json(self.folder / _FACTS, dict(facts))

    def has(self, number: int) -> bool:
        """Return whether a part is complete."""
        return self._path(number).is_file()

    def write(self, number: int, records: Iterable[Record]) -> None:
        """Write a part."""
        publish_text(self._path(number), "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records))

    def records(self, count: int) -> Iterator[Record]:
        """Yield the records of the first `count` parts."""
        for number in range(count):
            with self._path(number).open(encoding="utf-8") as lines:
                yield from map(parse_json, lines)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.jsonl"


def check_output(output: Path, layout: Layout | None, facts: TaskFacts) -> None:
    """Raise ConfigurationError for an output without a known suffix, or a layout of another task."""
    if layout is None and output.suffix not in _SUFFIXES:
        raise ConfigurationError(f"output: {output}: expected a file that ends in {', '.join(_SUFFIXES)}")
    if layout is not None and facts.head not in _HEADS[layout]:
        fitting = [name for name, heads in _HEADS.items() if facts.head in heads]
        raise ConfigurationError(
            f"layout={layout}: is one of {' and '.join(_HEADS[layout])}, the run predicts {facts.head}: "
            f"{f'expected {fitting[0]}' if fitting else 'write .jsonl, .csv or .parquet instead'}"
        )


def write_output(output: Path, layout: Layout | None, records: Iterable[Record], facts: TaskFacts) -> None:
    """Write all predictions to one file, in bounded memory except for SQuAD's object."""
    if layout is None and output.suffix == ".parquet":
        with publish(output) as temporary:
            _write_parquet(temporary, records, facts)
        return
    with publish(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if layout == "glue":
            file.write("index\tprediction\n")
            file.writelines(f"{record.get('id', record['row'])}\t{_glue_answer(record)}\n" for record in records)
        elif layout == "squad":
            _write_squad(output, file, records, facts)
        elif output.suffix == ".jsonl":
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
        else:
            table = csv.DictWriter(
                file, columns_of(facts), delimiter="\t" if output.suffix == ".tsv" else ",", lineterminator="\n",
                restval="",
            )  # fmt: skip
            table.writeheader()
            table.writerows(_cells(record, facts) for record in records)


def columns_of(facts: TaskFacts) -> list[str]:
    """Return the columns of a table of predictions."""
    chances = [f"probability_{name}" for name in facts.labels]
    by_head: dict[str, Sequence[str]] = {
        "classification": [*(("labels",) if facts.multi_label else ("label", "probability")), *chances],
        "tagging": ("words", "tags"), "multiple_choice": ("choice", "probabilities"), "lm": ("text", "label"),
        "span": ("answer", "start", "score", *(("null_score", "na_prob") if facts.unanswerable else ())),
    }  # fmt: skip
    return ["row", "id", *by_head.get(facts.head, ("score",)), "rejected"]


def _cells(record: Record, facts: TaskFacts) -> Record:
    if facts.head == "multiple_choice" and "probabilities" in record:
        return {**record, "probabilities": " ".join(map(str, record["probabilities"]))}
    return flat_record(record, facts.labels)


def flat_record(record: Mapping[str, Any], labels: Sequence[str]) -> Record:
    """Return a record as cells of a table: a column per probability, lists as JSON-free texts joined by a space.

    Example:
        >>> flat_record({"row": 0, "tags": ["O", "O"], "probabilities": {"a": 0.5}}, ["a"])
        {'row': 0, 'tags': 'O O', 'probability_a': 0.5}
    """
    cells: Record = {}
    for name, value in record.items():
        if name == "probabilities":
            parts = value.items() if isinstance(value, Mapping) else enumerate(value)
            cells |= {f"probability_{part}": chance for part, chance in parts}
        elif isinstance(value, list):
            cells[name] = (" " if name in ("words", "tags") else ",").join(map(str, value))
        else:
            cells[name] = value
    return cells


def _write_parquet(path: Path, records: Iterable[Record], facts: TaskFacts) -> None:
    """Write a table in row groups; every column has one type, whatever the rows hold."""
    numbers = {"probability", "score", "null_score", "na_prob"}
    integers = {"row", "choice", "start"}
    fields = [
        (name, pa.float64() if name in numbers or name.startswith("probability_") else
         pa.int64() if name in integers else pa.string())
        for name in columns_of(facts)
    ]  # fmt: skip
    schema, rows = pa.schema(fields), list[Record]()
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for record in records:
            cells = _cells(record, facts)
            rows.append({**cells, "id": None if cells.get("id") is None else str(cells["id"])})
            if len(rows) == _GROUP:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema))


_GROUP: Final = 4096
"""Rows of a row group."""


def _write_squad(output: Path, file: TextIO, records: Iterable[Record], facts: TaskFacts) -> None:
    """Write `{id: text}`, and for SQuAD 2.0 `{id: probability of no answer}` to NAME.na_prob.json."""
    answers, chances = {}, {}
    for record in records:
        answers[_id_of(record)] = record.get("answer", "")
        chances[_id_of(record)] = record.get("na_prob", 1.0)
    file.write(json.dumps(answers, ensure_ascii=False) + "\n")
    if facts.unanswerable:
        publish_text(output.with_name(f"{output.stem}.na_prob.json"), json.dumps(chances, ensure_ascii=False) + "\n")


def _id_of(record: Record) -> str:
    return str(record.get("id", record["row"]))


def _glue_answer(record: Record) -> str:
    if "rejected" in record:
        raise ConfigurationError(
            f"layout=glue: row {record['row']} has no prediction ({record['rejected']}): a submission needs all rows; "
            "repair the row"
        )
    return str(record["label"]) if "label" in record else f"{record['score']:.3f}"
