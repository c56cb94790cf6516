"""Options of `decontaminate`: evaluation sets, and the length of a run."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.functional_validators import BeforeValidator

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.pipeline.registries import TaskReaderComponent


@config_class
class EvaluationSet:
    """Files of evaluation items that no training document may hold."""

    WORD: ClassVar = "path"

    path: Annotated[str, HOME_EXPANDED]
    """file, folder or glob (`**` descends): text files (.txt) with an item a line, or rows with
    `text` or `fields`, or as BLiMP, minimal pairs and LAMA are published"""
    reader: TaskReaderComponent | None = None
    """reader of a task's files: {name: squad}; null: the layouts above"""
    suite: str | None = None
    """name in reports; null: a folder's name, else the name of each file without ending, after that
    of the task"""


def _parse_sets(value: object) -> object:
    """Return a path, or paths in a list, as evaluation sets."""
    return [
        {"path": entry} if isinstance(entry, str) else entry
        for entry in (value if isinstance(value, list) else [value])
    ]


@config_class
class DecontaminateConfig:
    """Evaluation items to find; documents that hold them are dropped."""

    against: Annotated[list[EvaluationSet], Field(min_length=1), BeforeValidator(_parse_sets)]
    """evaluation sets: paths, or {path: squad/dev.json, reader: {name: squad}}"""
    ngram: Annotated[int, Field(ge=5, le=1000)] = 13
    """words of a run, 5 to 1000; a shorter text of an item counts as one run if it has 5 words"""
    max_document_frequency: Annotated[int, Field(ge=1)] = 10
    """documents, ≥ 1; a run that more of them hold is a common phrase: it is ignored, and listed"""
