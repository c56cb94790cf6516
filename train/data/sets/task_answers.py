"""The answers of a task beside the head that learns them: classes are taken from the set, or compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import TaskFacts, facts_of

_NO_RANGE: Final = HeadConfig().range


def with_answers(model: ModelConfig, manifests: Sequence[tuple[str, Manifest]]) -> ModelConfig:
    """Return a model whose heads know the answers of the tasks that they learn: names of classes, range of numbers.

    So a checkpoint holds the names with their numbers, and evaluation can compare them. A head that compares texts gets
    the number from which on two belong together.

    Args:
        model: as configured.
        manifests: of all sets of the run, each with the key and the path that name it.

    Raises:
        ConfigurationError: the configuration, or another set, has other classes.
    """
    heads = dict(model.heads)
    for where, manifest in manifests:
        facts = facts_of(manifest)
        if facts is None:
            continue
        for name, target in model.targets.items():
            if target == facts.head:
                heads[name] = _set_answers(heads[name], facts, f"model.heads.{name}", where)
    return replace(model, heads=heads) if heads != model.heads else model


def _set_answers(head: HeadConfig, facts: TaskFacts, key: str, where: str) -> HeadConfig:
    if facts.head == "regression":
        unset = head.output == "sigmoid" and head.range == _NO_RANGE
        return replace(head, range=(facts.low, facts.high)) if unset else head
    if facts.head == "similarity":
        return replace(head, alike=facts.alike)
    if head.labels and head.labels != facts.labels:
        raise ConfigurationError(
            f"{key}.labels: expected {', '.join(facts.labels)} in this order, as {where} has, got "
            f"{', '.join(head.labels)}: a number would mean another class; train on sets of one task, or leave the "
            "key out"
        )
    if head.classes not in (None, len(facts.labels)):
        raise ConfigurationError(
            f"{key}.classes: {where} has {len(facts.labels)}: {', '.join(facts.labels)}; got {head.classes}: leave "
            "the key out, the set says it"
        )
    return replace(head, labels=facts.labels)
