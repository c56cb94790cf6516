"""Select the map of a model type by its name, or by the model that it must hold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.registry import find, names

_MAPS: Final = "clozeline.model.checkpoints"


def map_of_type(model_type: str) -> KeyMap:
    """Return the map of a `model_type`: that of `xlm-roberta` is in xlm_roberta.py, or else in any other file."""
    file = model_type.replace("-", "_")
    named: type[KeyMap] | None = find(_MAPS, file) if file in names(_MAPS) else None
    if named is not None and named.model_type == model_type:
        return named()
    known = {kind.model_type: kind for kind in _all_maps()}
    if model_type not in known:
        raise ConfigurationError(f"model_type: expected one of {', '.join(sorted(known))}, got {model_type!r}")
    return known[model_type]()


def map_of_class(plain: Mapping[str, Any]) -> KeyMap:
    """Return the map of the type and class that wrote a config.json: that of a variant if it has the class."""
    general = map_of_type(str(plain.get("model_type")))
    return next((variant for variant in general.variants() if variant.is_written_by(plain)), general)


def map_for(config: ModelConfig, token_ids: Mapping[str, Any], model_type: str | None = None) -> KeyMap:
    """Return a map that can hold a model: of the requested type, else the most general, else the first alphabetically.

    Among types with the same body, those whose heads are built like the model's come first, then those with a class for
    its heads, then those that share layers as it does.

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
    fitting = [other for other, reasons in problems.items() if not reasons]
    if fitting:
        return max(fitting, key=lambda other: other.likeness(config, token_ids))
    nearest = min(problems, key=lambda other: (other.fixed["family"] != config.family, len(problems[other])))
    wide = config.attention_heads * config.head_width
    removed = (
        f"{config.attention_heads} heads of head_dim {config.head_width} make {wide} features, where most classes tie "
        f"them to dim {config.dim}: such a model stays in our format; "
        if wide != config.dim
        else ""
    )
    raise ConfigurationError(
        f"no model type of transformers computes what this model does; {removed}{nearest.model_type}, the nearest, "
        "differs: " + "; ".join(problems[nearest])
    )


def build_heads_of_class(config: ModelConfig, token_ids: Mapping[str, Any]) -> ModelConfig:
    """Return the model with each `hidden: auto` replaced by what the class of transformers that holds its body has."""
    heads = dict(config.heads)
    for name, head in config.heads.items():
        if head.hidden != "auto":
            continue
        linear = name in ("tagging", "span") or config.architecture == "decoder"
        berts = replace(head, hidden=None if linear else "tanh")
        alone = replace(config, heads={name: berts}, adapter=None)
        try:
            theirs = map_for(alone, token_ids).task_head(alone, token_ids) or berts
        except ConfigurationError:  # the body stays in our format
            theirs = berts
        form = {key: getattr(theirs, key) for key in ("hidden", "hidden_dim", "hidden_norm", "bias")}
        heads[name] = replace(head, **form)
    return replace(config, heads=heads)


def _all_maps() -> list[type[KeyMap]]:
    return [find(_MAPS, name) for name in names(_MAPS)]
