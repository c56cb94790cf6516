"""Use blocks of datatrove, that is filters, extractors and readers, by the names of their classes.

https://github.com/huggingface/datatrove

A block is built once per process and shared by all units. Units run in any order and in any
process, so a block whose answers depend on earlier documents is refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import xxhash

from clozeline import plugins
from clozeline.configuration.config import config_class
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.registry import Component

if TYPE_CHECKING:
    import datatrove.data

_REFUSED_OPTIONS: Final = {
    "exclusion_writer": "Clozeline lists every rejected document with its reason in `rejects/`",
}
"""Arguments of blocks that would have no effect, and why."""
_ROUNDS: Final = 5
"""How often a new block judges the probes: trafilatura drops a text that it sees four times."""
_PROBES: Final = (
    "The river carried the small boats past the old mill, and nobody on the bank could say who had "
    "built it. Two children counted the boats; they reached seven before the bell of the village "
    "rang.\nA man sold bread at the gate. He said that the winter had been long, that the road was "
    "good again, and that his brother would come from the mountains in spring.",
    "- one item\n- a second item\n- a third item ...",
)
"""Texts that a new block judges several times, so that a block that keeps state is found."""


@config_class
class BlockOptions:
    """A block and its arguments."""

    block: Annotated[str, IsName()]
    """class of datatrove or a subclass, such as `datatrove.pipeline.filters:RegexFilter`"""
    options: dict[str, Any] = field(default_factory=dict)
    """arguments of its constructor, by name"""

    @property
    def algorithms(self) -> Sequence[type]:
        """The class, whose source and package version are part of the arguments of a unit."""
        return [import_block(self.block)]


def import_block(block: str, *, is_allowed: bool = False) -> type:
    """Return the class of a block; raise ConfigurationError if there is none."""
    from loguru import logger  # a slow import

    logger.disable("datatrove")  # it logs each file and each task to the terminal
    return plugins.import_class(block, is_allowed=is_allowed)


def build_block(options: BlockOptions, base: str, answer: Callable[[Any, str], object]) -> Any:
    """Return a block for single documents, which all units of this process share.

    Args:
        options: class and arguments.
        base: the class of datatrove that it must inherit from, and whose `run` it must keep.
        answer: function of a block and a text, whose value may only depend on the text.

    Raises:
        ConfigurationError: the block cannot be built, works on all documents of a task, or gives
            answers that depend on earlier documents.
    """
    arguments = json.dumps(options.options, sort_keys=True, default=str)
    return _build_shared(options.block, base, arguments, answer)


@cache
def _build_shared(
    block: str, base: str, arguments: str, answer: Callable[[Any, str], object]
) -> Any:
    interface: Any = import_block(base, is_allowed=True)
    if getattr(import_block(block), "run", None) is not interface.run:
        raise ConfigurationError(
            f"{block}: expected a subclass of {base} without a `run` of its own. A block that "
            "needs all documents of a task cannot judge one: run it in a pipeline of datatrove, "
            "and let ClozelineReader and ClozelineShards connect the two"
        )
    step = create_block(block, json.loads(arguments))
    _require_stateless(block, step, answer)
    return step


def create_block(block: str, arguments: Mapping[str, Any]) -> Any:
    """Return a new instance of a block; ConfigurationError if it cannot be built."""
    for name in arguments:
        if name in _REFUSED_OPTIONS:
            raise ConfigurationError(f"{block}: remove the option {name}: {_REFUSED_OPTIONS[name]}")
    try:
        return import_block(block)(**arguments)
    except Exception as error:  # whatever its constructor raises
        raise ConfigurationError(
            f"{block}: cannot be built with the options {dict(arguments)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _require_stateless(block: str, step: Any, answer: Callable[[Any, str], object]) -> None:
    """Raise ConfigurationError if a block draws random numbers or remembers documents."""
    why = next(
        (f"`{name}` draws random numbers" for name, value in vars(step).items() if _draws(value)),
        "",
    )
    if not why:
        try:
            first = [answer(step, text) for text in _PROBES]
            before = _describe_attributes(step)
            later = [[answer(step, text) for text in _PROBES] for _ in range(_ROUNDS)]
        except Exception as error:
            raise ConfigurationError(
                f"{block}: it fails at a simple text: {type(error).__name__}: {error}"
            ) from error
        after = _describe_attributes(step)
        changed = [name for name in after if after[name] != before.get(name)]
        if changed:
            why = f"`{changed[0]}` changes with each document"
        elif any(each != first for each in later):
            why = "its answer to the same text changes"

    if why:
        raise ConfigurationError(
            f"{block}: {why}, so which documents are kept would depend on their order and on the "
            "number of tasks. Set its options so that it judges each document alone (such as "
            "`deduplicate: false`), or run it in a pipeline of datatrove"
        )


def _draws(value: object) -> bool:
    owner = getattr(value, "__self__", value)  # such as a method of a generator
    return isinstance(owner, (np.random.Generator, np.random.RandomState, random.Random))


def _describe_attributes(step: Any) -> dict[str, bytes]:
    """Return the hash of what each attribute shows of itself, except statistics."""
    shown = {name: repr(value) for name, value in vars(step).items() if name != "stats"}
    return {name: xxhash.xxh3_128_digest(text.encode()) for name, text in shown.items()}


def to_datatrove(document: Document) -> datatrove.data.Document:
    """Return a document as datatrove's, with the columns that it has and `extra` as metadata.

    The id is that of the record in its source, else the uid in hexadecimal.
    """
    from datatrove.data import Document as Foreign

    stated = document.language != "und"
    date = None if document.date is None else datetime.fromtimestamp(document.date, UTC)
    columns = {
        "uid": document.uid.hex(),
        "source": document.source,
        "source_group": document.source_group,
        "url": document.url,
        "date": None if date is None else date.isoformat(),
        "language": document.language if stated else None,
        "language_score": document.language_score if stated else None,
        "offset": document.offset,
        "length": document.length,
        "flags": document.flags,
        "target_text": document.target_text,
        "target_language": document.target_language,
    }
    known = {name: value for name, value in columns.items() if value is not None}
    extra = {name: value for name, value in document.extra.items() if name != "id"}
    return Foreign(
        text=document.text,
        id=document.record_id or document.uid.hex(),
        metadata={**extra, **known},
    )


def names_block(component: Component[Any]) -> bool:
    """Return whether an algorithm runs a block."""
    return isinstance(component.options, BlockOptions)
