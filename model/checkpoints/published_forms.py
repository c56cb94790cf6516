"""What the published forms of models, which extensions read and write, decide for ours."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from clozeline.extension_list import HIDE
from clozeline.model.checkpoints.sources import ModelSource, NewModel
from clozeline.model.configuration.head import ClassifierOptions, HeadOptions, RowHeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import MODEL_SOURCES


def list_sources() -> Iterator[ModelSource]:
    """Yield the published forms that extensions read and write."""
    for source in MODEL_SOURCES.classes().values():
        yield source()


def explain_no_source() -> str:
    """Return why no published form is known, and what to do."""
    hidden = os.environ.get(HIDE)
    remedy = f"{HIDE}={hidden} hides some, leave it out" if hidden else "install one"
    return f"no extension for published forms of models: {remedy}"


def with_published_heads(
    config: ModelConfig,
    token_ids: Mapping[str, object],
    saved: Mapping[str, HeadOptions] = MappingProxyType({}),
) -> ModelConfig:
    """Return the model with each `hidden: auto` replaced by the head of its published form.

    A resumed run keeps its `saved` heads. Without a form, it is the head that BERT has.
    """
    heads = dict(config.heads)

    for name, head in config.heads.items():
        if not isinstance(head, ClassifierOptions) or head.hidden != "auto":
            continue
        linear = not isinstance(head, RowHeadOptions) or config.architecture == "decoder"
        bert_head = replace(head, hidden=None if linear else "tanh")
        single = replace(config, heads={name: bert_head}, adapter=None)
        published = (source.find_head(single, token_ids) for source in list_sources())
        fitting = next(filter(None, [saved.get(name), *published]), bert_head)
        values = {
            key: getattr(fitting, key) for key in ("hidden", "hidden_dim", "hidden_norm", "bias")
        }
        heads[name] = replace(head, **values)

    return replace(config, heads=heads)


def describe_export(model: NewModel) -> list[str]:
    """Return the lines on what an export of a model will be."""
    forms = [*list_sources()]
    lines = [line for form in forms for line in form.describe_export(model)]
    return lines if forms else [f"export     {explain_no_source()}"]
