"""Take the labels of a task from its sets into the head's configuration, or compare them with it."""

from collections.abc import Sequence
from dataclasses import replace

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.registry import find


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
                answer = find("clozeline.train.answers", facts.head)(facts)
                heads[name] = answer.configure(replace(model, heads=heads), name, where)
    return replace(model, heads=heads) if heads != model.heads else model
