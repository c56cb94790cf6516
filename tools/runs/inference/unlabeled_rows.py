"""Read rows without labels for a fine-tuned run: columns of a table, or an official layout, as rows of the task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.head_rows import ROW_TYPES
from clozeline.pipeline.tasks.readers import (
    Choices,
    Dialogue,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskItem,
    TaskReader,
)
from clozeline.pipeline.tasks.readers._column_files import open_table, value_at
from clozeline.pipeline.tasks.readers._text_lines import sentence_lines
from clozeline.pipeline.tasks.readers.instructions import Instructions
from clozeline.pipeline.tasks.readers.squad import Squad
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.tools.runs.evaluation.task_run import TaskRun

Item: TypeAlias = tuple[TaskItem | Rejected, Any]
"""A row, and its id in the file, None without one."""
_CORPUS: Final = "predict"
_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "classification": (("text",), ("text_pair",)), "regression": (("text",), ("text_pair",)),
    "similarity": (("text", "text_pair"), ()), "tagging": (("words",), ()), "span": (("question", "context"), ()),
    "multiple_choice": (("context", "choices"), ("begin",)), "lm": (("source",), ()),
}  # fmt: skip
"""Columns that each head needs, and those that it may have."""


@dataclass(frozen=True)
class InputColumns:
    """Columns with the input of a model in a file; `keys` are column names by key, such as text and text_pair."""

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id: str | None = None
    delimiter: str | None = None
    columns: Sequence[str] = ()


def read_unlabeled(path: Path, opened: TaskRun, reader: TaskReader, columns: InputColumns) -> Iterator[Item]:
    """Yield every row of a file in order, as an item with an arbitrary answer or a rejection.

    A file in SQuAD's layout, and those of CoNLL and SuperGLUE for a run that was trained on them, need no names of
    columns.
    """
    limits, facts = Limits(), opened.facts
    if facts.head == "span" and path.suffix == ".json" and not columns.keys:
        squad = Squad(Squad.Options(unanswerable=True), limits)
        for index, row in squad.open(path).rows():
            if not isinstance(row, Rejected):
                asked = {**row["entry"], "answers": []}
                yield squad.build({**row, "entry": asked}, index), asked.get("id")
        return
    if facts.head == "tagging" and hasattr(reader.options, "word_column") and not columns.keys:
        for number, sentence in enumerate(sentence_lines(path, limits)):
            words = tuple(line.split()[reader.options.word_column] for line in sentence.lines)
            rejected = Rejected(sentence.damage or "fields", number)
            yield (rejected if sentence.damage else TaggedWords(words, (0,) * len(words), number)), None
        return
    if not columns.keys and columns.id is None and (official := reader.read_unlabeled(path)) is not None:
        yield from official
        return
    file = open_table(path, limits, columns.delimiter, columns.columns)
    keys = _keys_of(file.names, opened, reader, columns)
    file.require(*(name for names in keys.values() for name in names), *([columns.id] if columns.id else []))
    for index, row in file.rows():
        if isinstance(row, Rejected):
            yield row, None
            continue
        key = None if columns.id is None else value_at(row, columns.id)
        values = {key: [value_at(row, name) for name in names] for key, names in keys.items()}
        yield _item_of(values, opened, reader, index, key), key


def _keys_of(
    names: Sequence[str], opened: TaskRun, reader: TaskReader, columns: InputColumns
) -> dict[str, Sequence[str]]:
    """Return the columns by key: as given, else from the training task, else columns of the key's name."""
    needed, optional = _KEYS[opened.facts.head]
    if opened.facts.texts > 1 and opened.facts.head in ("classification", "regression"):
        needed, optional = ("text", "text_pair"), ()
    if unknown := columns.keys.keys() - {*needed, *optional}:
        raise ConfigurationError(
            f"{unknown.pop()}: the task {opened.facts.name} reads {', '.join((*needed, *optional))}: give those columns"
        )
    own = reader.input_columns(names)
    return {
        key: columns.keys.get(key) or own.get(key) or [key]
        for key in (*needed, *optional)
        if key in needed or key in columns.keys or key in own
    }


def _item_of(
    values: Mapping[str, Sequence[Any]], opened: TaskRun, reader: TaskReader, index: int, key: Any
) -> TaskItem | Rejected:
    """Return the row of the task from its values by key; the answer is an arbitrary one that nothing reads."""
    if "words" in values:
        (value,) = values["words"]
        words = value.split() if isinstance(value, str) else value
        if (
            not isinstance(words, list)
            or not words
            or not all(isinstance(word, str) and word.strip() for word in words)
        ):
            return Rejected("fields" if words else "empty_text", index)
        return TaggedWords(tuple(words), (0,) * len(words), index)
    parts = [*values["choices"]] if "choices" in values else []
    choices = parts[0] if len(parts) == 1 and isinstance(parts[0], list) else parts
    texts = {name: list(part) for name, part in values.items() if name != "choices"}
    cells = [cell for part in (*texts.values(), choices) for cell in part]
    if not all(isinstance(cell, str) or cell is None for cell in cells):
        return Rejected("fields", index)
    joined = {name: " ".join(text for cell in part if (text := (cell or "").strip())) for name, part in texts.items()}
    if not all(text for name, text in joined.items() if name != "begin") or any(
        not (cell or "").strip() for cell in choices
    ):
        return Rejected("empty_text", index)
    facts = opened.facts
    if facts.head == "span":
        return Question(joined["question"], str(texts["context"][0]), (), str(index if key is None else key), index)
    if facts.head == "multiple_choice":
        if len(choices) < 2:
            return Rejected("fields", index)
        begin = joined.get("begin", "")
        return Choices(joined["context"], tuple(f"{begin} {choice.strip()}".strip() for choice in choices), 0, index)
    if facts.head == "lm" and isinstance(reader, Instructions):
        return Dialogue((("user", joined["source"]), ("assistant", joined["source"])), index)
    if facts.head == "lm":
        prefix, suffix = (str(getattr(reader.options, name, "")) for name in ("prefix", "suffix"))
        return SourceTarget(joined["source"], (joined["source"],), prefix, index, suffix=suffix)
    label = 0 if facts.labels and not facts.multi_label else None
    return LabeledText(tuple(joined.values()), label, 0.0, index)


def build_rows(
    opened: TaskRun, reader: TaskReader, items: Sequence[TaskItem | Rejected]
) -> tuple[Rows, dict[bytes, int], dict[int, str]]:
    """Return the rows of the items as in training, the item of each document uid, and reasons of items without rows."""
    objective = opened.train.manifest.objective
    assert objective is not None, "a set of examples"
    frame = FRAMES[objective.options["frame"]]
    form = Form(frame, objective.options["max_length"], opened.train.manifest.config.get("stride"))
    builder = ROW_TYPES[opened.facts.head, frame.architecture](
        opened.facts, form, opened.trained.tokenizer, _CORPUS, _CORPUS
    )
    items = list(reader.complete(items, opened.trained.tokenizer))
    rows = builder.rows(items)
    uids = {document_uid(_CORPUS, _CORPUS, "row", item.index): number for number, item in enumerate(items)
            if not isinstance(item, Rejected)}  # fmt: skip
    built = {rows.fixed["document_uid"][row].tobytes() for row in range(len(rows))}
    missing = {number: "no_tokens" for uid, number in uids.items() if uid not in built}
    missing |= {number: item.reason for number, item in enumerate(items) if isinstance(item, Rejected)}
    return rows, uids, missing
