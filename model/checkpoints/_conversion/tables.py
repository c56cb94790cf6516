"""Tables that model types share: keys of config.json, modules of layers, and task heads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clozeline.model.checkpoints._conversion.key_map import Reshaped, Slice
from clozeline.model.checkpoints._conversion.task_heads import Task

QKV: Final = tuple(f"attention.body.{name}" for name in ("query", "key", "value"))
GATED: Final = ("feed_forward.body.gate", "feed_forward.body.up")
DROPOUT: Final = "classifier_dropout"
ANSWER: Final = Task("qa_outputs", options={"dropout": 0.0})
"""Start and end of an answer."""
TAGS: Final = Task("classifier", dropout=DROPOUT)
"""Classes of tokens."""
SCORE: Final = Task("score", options={"bias": False, "dropout": 0.0})
"""Classifier of a row in decoders."""
CLASSES: Final = Task(
    *("classification_head.out_proj", "classification_head.dense"),
    options={"hidden": "tanh"},
    dropout=DROPOUT,
    usual=0.0,
    twice=True,
)
"""Classifier of a row in encoder-decoders."""


def split_defaults(table: Mapping[str, Any], **others: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Return `fields` and `defaults` from a table of our keys: theirs, or theirs with its default."""
    pairs = [entry for entry in table.values() if isinstance(entry, tuple)]
    fields = {ours: entry[0] if isinstance(entry, tuple) else entry for ours, entry in table.items()}
    return fields, {**dict(pairs), **others}


def without_keys(
    fields: Mapping[str, str], defaults: Mapping[str, Any], removed: Iterable[str], **others: Any
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a type's `fields` and `defaults` without some of our keys, and with other defaults.

    Example:
        >>> without_keys({"dim": "d", "eps": "e"}, {"e": 0.1}, ["eps"], d=8)
        ({'dim': 'd'}, {'d': 8})
    """
    kept = {ours: theirs for ours, theirs in fields.items() if ours not in set(removed)}
    unread = set(fields.values()) - set(kept.values())
    return kept, {**{key: value for key, value in defaults.items() if key not in unread}, **others}


def layer_names(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str | Slice | Reshaped]:
    """Return the modules of one stack's layers: `layer_names("family.stack", "bert.encoder.layer", {...})`."""
    return {f"{ours}.layers.{{i}}.{name}": f"{theirs}.{{i}}.{target}" for name, target in names.items()}


def attention_names(query: str, key: str, value: str, out: str) -> dict[str, str]:
    """Return the projections of a layer's attention."""
    return dict(zip((*QKV, "attention.body.out"), (query, key, value, out), strict=True))


def fused_names(theirs: str, parts: Sequence[str], **more: Any) -> dict[str, Slice]:
    """Return modules of a layer that a checkpoint stores fused, in the order of `parts`; `more` is that of `Slice`."""
    at = "family.stack.layers.{i}."
    return {f"{at}{name}": Slice(theirs, part, len(parts), **more) for part, name in enumerate(parts)}
