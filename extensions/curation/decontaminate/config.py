"""Options of `decontaminate`: evaluation sets, and the length of the n-grams."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.functional_validators import BeforeValidator

from clozeline.configuration.config import HOME_EXPANDED, Positive, config_class
from clozeline.extensions.curation.registries import ItemReaderComponent


@config_class
class EvaluationSet:
    """Files with evaluation items that no training document may contain."""

    SHORTHAND_KEY: ClassVar = "path"

    path: Annotated[str, HOME_EXPANDED]
    """file, folder or glob (`**` descends): text files (.txt) with one item per line, or rows with
    `text` or `fields`, or in the layout of BLiMP, other minimal pairs, or LAMA"""
    reader: ItemReaderComponent | None = None
    """reader of the files of a task: {name: squad}; null: the layouts above"""
    suite: str | None = None
    """name in reports; null: the name of the folder, else that of each file without its suffix,
    behind the name of the task"""


def _parse_sets(value: object) -> object:
    """Return a path, or a list of paths, as evaluation sets."""
    return [
        {"path": entry} if isinstance(entry, str) else entry
        for entry in (value if isinstance(value, list) else [value])
    ]


@config_class
class DecontaminateConfig:
    """Evaluation items to search; documents that contain one are dropped."""

    against: Annotated[list[EvaluationSet], Field(min_length=1), BeforeValidator(_parse_sets)]
    """evaluation sets: paths, or {path: squad/dev.json, reader: {name: squad}}"""
    ngram: Annotated[int, Field(ge=5, le=1000)] = 13
    """words of an n-gram, 5 to 1000; a shorter text of an item is one n-gram from 5 words on"""
    max_document_frequency: Positive = 10
    """documents, ≥ 1; an n-gram in more of them is a common phrase: it is ignored, and listed"""
