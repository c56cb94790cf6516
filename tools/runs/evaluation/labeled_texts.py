"""Classify texts without labels with a fine-tuned run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.head_rows import LabeledRows
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaskReader
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.registry import find
from clozeline.tools.runs.evaluation.task_run import TaskRun

_CORPUS = "pseudo"


@dataclass(frozen=True, slots=True)
class LabeledByModel:
    """A text, and the class or classes that a model assigns."""

    item: LabeledText
    label: int | tuple[int, ...]
    """index of the class; with several classes per row, of those above one half"""
    probability: float
    """of the class; with several per row, of the least certain decision for or against a class"""


def task_reader(manifest: Manifest) -> TaskReader:
    """Return the reader whose rows a set holds."""
    options = dict(manifest.config["reader"])
    kind = find("clozeline.pipeline.tasks.readers", options.pop("name"))
    reader: TaskReader = kind(kind.Options(**options), Limits())
    return reader


def read_texts(path: Path, reader: TaskReader) -> tuple[list[LabeledText], dict[str, int]]:
    """Return the texts in a file's lines, of pairs separated by a tab, and the number of rejected lines, by reason.

    A first line with the names of the task's text columns is its `header`.
    """
    items, refused, facts = [], Counter[str](), reader.facts
    for index, line in text_lines(path, Limits()):
        texts = [] if isinstance(line, Rejected) else [text.strip() for text in line.split("\t")]
        if isinstance(line, Rejected):
            refused[line.reason] += 1
        elif index == 0 and [text.strip('"') for text in texts] == [*chain(*reader.input_columns(texts).values())]:
            refused["header"] += 1
        elif len(texts) != facts.texts:
            refused["fields"] += 1
        elif not all(texts):
            refused["empty_text"] += 1
        else:
            items.append(LabeledText(tuple(texts), None, None, index))
    if not items:
        texts_said = "a text a line" if facts.texts == 1 else "two texts a line, with a tab between them"
        raise ConfigurationError(f"input: {path}: expected {texts_said}, got none: {dict(refused)}; give another file")
    return items, dict(refused)


def label_texts(opened: TaskRun, items: Sequence[LabeledText]) -> tuple[list[LabeledByModel], int]:
    """Return the class of each text, in order, and the number of texts without tokens, which get none."""
    from clozeline.tools.runs.evaluation.predictions import predict_share, read_best_class, read_probable_classes

    manifest = opened.train.manifest
    assert manifest.objective is not None, "a set of examples"
    options = manifest.objective.options
    form = Form(FRAMES[options["frame"]], options["max_length"])
    kind = LabeledRows(opened.facts, form, opened.trained.tokenizer, _CORPUS, _CORPUS)
    several = opened.facts.multi_label
    own = {"label": None, "classes": ()} if several else {"label": 0}  # classes that are not read
    rows = kind.rows([replace(item, **own) for item in items])
    decide = read_probable_classes if several else read_best_class
    predictions = {}
    if len(rows):
        predictions = predict_share(opened.trained.model, opened.train, rows, opened.head, 0, 1, decide)
    items_by_uid = {document_uid(_CORPUS, _CORPUS, "row", item.index): item for item in items}
    judged = [
        LabeledByModel(items_by_uid[rows.fixed["document_uid"][row].tobytes()], label, probability)
        for row, (label, probability) in predictions.items()
    ]
    return sorted(judged, key=lambda item: item.item.index), len(items) - len(judged)
