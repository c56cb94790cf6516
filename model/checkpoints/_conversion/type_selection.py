"""Select the map of a model type by its name, or by the model that it must hold."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.configuration.head import ClassifierOptions, RowHeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import MAX_OFFSET
from clozeline.model.registries import MODEL_TYPES

_BART_OFFSET: Final = 2
"""Rows before the first position in BART's family, whatever the id of the pad token is."""


class NoClassError(ConfigurationError):
    """No type can hold a model."""

    def __init__(self, message: str, order: tuple[float, ...]) -> None:
        super().__init__(message)
        self.order = order
        """distance of the nearest type: less is nearer"""


def map_of_type(model_type: str) -> KeyMap:
    """Return the map of a `model_type`."""
    known = MODEL_TYPES.available()
    if model_type not in known:
        raise ConfigurationError(
            f"model_type: expected one of {', '.join(known)}, got {model_type!r}"
        )
    key_map: KeyMap = MODEL_TYPES.load_class(model_type)()
    return key_map


def map_of_class(plain: Mapping[str, object]) -> KeyMap:
    """Return the map of the type and class that wrote a config.json: that of a variant if it has the class."""
    general = map_of_type(str(plain.get("model_type")))
    return next(
        (variant for variant in general.variants() if variant.is_written_by(plain)), general
    )


def map_for(
    config: ModelConfig, token_ids: Mapping[str, object], model_type: str | None = None
) -> KeyMap:
    """Return a map that can hold a model: of the requested type, else the most general, else the first alphabetically.

    Among types with the same body, those whose heads are built like the model's come first, then
    those with a class for its heads, then those that share layers as it does.

    Raises:
        ConfigurationError: there is none; the message has the reasons of the nearest type.
    """
    if model_type:
        maps = [map_of_type(model_type)]
        if (why := maps[0].read_only) is not None:
            raise ConfigurationError(f"a model of type {model_type} cannot be exported: {why}")
    else:  # general types before those that derive from them
        written = [kind for kind in _all_maps() if kind.read_only is None]
        maps = [kind() for kind in sorted(written, key=lambda kind: len(kind.__mro__))]
    maps += [variant for key_map in maps for variant in key_map.variants()]
    problems = {other: other.problems(config, token_ids) for other in maps}
    fitting = [other for other, found in problems.items() if not found.reasons]
    if fitting:
        return max(fitting, key=lambda other: other.match_score(config, token_ids))
    families = sorted({str(other.configuration.fixed["family"]) for other in maps})
    if config.family not in families:
        have = f"expected {' or '.join(families)}, got {config.family}"
        raise NoClassError(
            f"no model type of transformers computes what this model does: model.family: {have}",
            (1, 0),
        )
    orders = {
        other: (
            other.configuration.fixed["family"] != config.family,
            not found.is_complete,
            len(found.reasons),
        )
        for other, found in problems.items()
    }
    nearest = min(orders, key=lambda other: orders[other])
    wide = config.attention_heads * config.head_width
    removed = (
        f"{config.attention_heads} heads of head_dim {config.head_width} make {wide} features, "
        "where most classes tie "
        f"them to dim {config.dim}: such a model stays in our format; "
        if wide != config.dim
        else ""
    )
    raise NoClassError(
        "no model type of transformers computes what this model does; "
        f"{removed}{nearest.model_type}, the nearest, "
        "differs: " + "; ".join(problems[nearest].reasons),
        orders[nearest],
    )


def find_form(
    config: ModelConfig,
    token_ids: Mapping[str, object],
    model_type: str | None = None,
    *,
    body_alone: bool = False,
) -> tuple[ModelConfig, KeyMap]:
    """Return a form of a model that a type can hold, and the map of the type.

    Args:
        config: the model.
        token_ids: its special tokens.
        model_type: of transformers; None: any.
        body_alone: the heads do not matter.

    Raises:
        ConfigurationError: no type, or not the requested one, can hold any form; the message names
            our keys.
    """
    refusals = list[NoClassError]()
    without_heads = list[tuple[ModelConfig, KeyMap]]()
    for form in equal_forms(config, token_ids):
        try:
            key_map = map_for(form, token_ids, model_type)
        except NoClassError as error:
            refusals.append(error)
            continue
        if key_map.classes.find(form.heads) or body_alone:
            return form, key_map
        without_heads.append((form, key_map))
    if without_heads:
        return without_heads[0]
    raise min(refusals, key=lambda error: error.order)


def equal_forms(config: ModelConfig, token_ids: Mapping[str, object]) -> Iterator[ModelConfig]:
    """Yield the configurations that compute the same as a model, with other rows that no token reads; its own first.

    Rows of the position table before the first position are left out or added: RoBERTa has one more
    than the id of the pad token, BERT none. A model without segment types gets a row of zeros.
    """
    offsets = [config.position.offset]
    if config.position.kind == "learned":
        pad = token_ids.get("pad_token_id")
        after_pad = [pad + 1] if isinstance(pad, int) and pad < MAX_OFFSET else []
        offsets += [*after_pad, 0, _BART_OFFSET]
    types = [config.type_vocab_size]
    if not config.type_vocab_size and config.architecture == "encoder":
        types.append(1)
    for offset in dict.fromkeys(offsets):
        position = replace(config.position, offset=offset)
        for rows in types:
            yield replace(config, position=position, type_vocab_size=rows)


def build_heads_of_class(config: ModelConfig, token_ids: Mapping[str, object]) -> ModelConfig:
    """Return the model with each `hidden: auto` replaced by what the class of transformers that holds its body has."""
    heads = dict(config.heads)
    for name, head in config.heads.items():
        if not isinstance(head, ClassifierOptions) or head.hidden != "auto":
            continue
        linear = not isinstance(head, RowHeadOptions) or config.architecture == "decoder"
        berts = replace(head, hidden=None if linear else "tanh")
        alone = replace(config, heads={name: berts}, adapter=None)
        try:
            held, key_map = find_form(alone, token_ids)
            theirs = key_map.task_head(held, token_ids) or berts
        except ConfigurationError:  # the body stays in our format
            theirs = berts
        form = {
            key: getattr(theirs, key) for key in ("hidden", "hidden_dim", "hidden_norm", "bias")
        }
        heads[name] = replace(head, **form)
    return replace(config, heads=heads)


def _all_maps() -> list[type[KeyMap]]:
    return [MODEL_TYPES.load_class(name) for name in MODEL_TYPES.available()]
