"""Write predictions as SuperGLUE's submissions (arXiv 1905.00537): `{"idx": 0, "label": "entailment"}` per line."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts


def submission_rows(records: Iterable[dict[str, Any]], facts: TaskFacts) -> Iterator[dict[str, Any]]:
    """Yield the lines of a submission: a class by name (of WSC `True` or `False`), a choice by index, a text.

    MultiRC has a line per passage, with the classes 0 and 1 of its answers. ConfigurationError for a row without a
    prediction.
    """
    if facts.name != "multirc":
        for record in records:
            yield {"idx": record.get("id", record["row"]), "label": _label_of(record, facts)}
        return
    answered = ((record.get("id") or [None] * 3, int(_label_of(record, facts) == "true")) for record in records)
    for passage, of_passage in groupby(answered, key=lambda each: each[0][0]):
        questions = [
            {"idx": question, "answers": [{"idx": key[2], "label": label} for key, label in of_question]}
            for question, of_question in groupby(of_passage, key=lambda each: each[0][1])
        ]
        yield {"idx": passage, "passage": {"questions": questions}}


def _label_of(record: dict[str, Any], facts: TaskFacts) -> str | int:
    if "rejected" in record:
        raise ConfigurationError(
            f"layout=superglue: row {record['row']} has no prediction ({record['rejected']}): a submission needs all "
            "rows; repair the row"
        )
    if facts.head == "multiple_choice":
        return int(record["choice"])
    if facts.head == "span":
        return str(record["answer"])
    return str(record["label"]).capitalize() if facts.name == "wsc" else str(record["label"])
