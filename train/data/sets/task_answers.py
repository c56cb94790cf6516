"""Take the labels of a task from its sets into the head's configuration, or compare them with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import TaskFacts, facts_of
from clozeline.train.configuration.model_source import unset_head_key

_NO_RANGE: Final = HeadConfig().range


def with_answers(model: ModelConfig, manifests: Sequence[tuple[str, Manifest]]) -> ModelConfig:
    """Return the model with the labels, score range or similarity threshold of its tasks filled in.

    A checkpoint then stores the label names in order. The manifests of all sets have descriptions for messages.

    Raises:
        ConfigurationError: the configuration, or another set, has other labels.
    """
    heads = dict(model.heads)
    for where, manifest in manifests:
        facts = facts_of(manifest)
        for name, target in model.targets.items():
            if facts is not None and target == facts.head:
                heads[name] = _set_answers(replace(model, heads=heads), name, facts, where)
    return replace(model, heads=heads) if heads != model.heads else model


def _set_answers(model: ModelConfig, name: str, facts: TaskFacts, where: str) -> HeadConfig:
    head, key = model.heads[name], f"model.heads.{name}"
    # scores: range and threshold
    if facts.head == "regression":
        unset = head.output == "sigmoid" and head.range == _NO_RANGE
        return replace(head, range=(facts.low, facts.high)) if unset else head
    if facts.head == "similarity":
        if facts.alike is None and head.negatives != "none":
            raise ConfigurationError(
                f"{key}.negatives: {where} also holds pairs with a low score, which are no positives: set it to none, "
                "or make the set again with tasks.similarity.alike, the lowest score of a positive pair"
            )
        unset = head.negatives == "none" and head.range == _NO_RANGE
        return replace(head, alike=facts.alike, range=(facts.low, facts.high) if unset else head.range)
    # labels: compare configured ones with the set
    if head.labels and head.labels != facts.labels:
        raise ConfigurationError(
            f"{key}.labels: expected {', '.join(facts.labels)} in this order, as {where} has, got "
            f"{', '.join(head.labels)}: an index would mean another label; train on sets of one task, or "
            f"{unset_head_key(model, name, 'labels')}"
        )
    if head.classes not in (None, len(facts.labels)):
        why = f"got {head.classes}: {unset_head_key(model, name, 'classes')}, the set says it"
        raise ConfigurationError(f"{key}.classes: {where} has {len(facts.labels)}: {', '.join(facts.labels)}; {why}")
    if head.multi_label and not facts.multi_label:
        return replace(head, labels=facts.labels)  # `refuse_unfit_heads` says that the set has one class per row
    return replace(head, labels=facts.labels, multi_label=facts.multi_label)
