"""Select the map of a model type by its name, or by the model that it must hold."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.registries import MODEL_TYPES
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import MAX_OFFSET
from clozeline.model.registries import FAMILIES

_BART_OFFSET: Final = 2
"""Number of rows before the first position in BART's family, whatever the pad token's id is."""


class NoClassError(ConfigurationError):
    """No type can hold a model."""

    def __init__(self, message: str, order: tuple[float, ...]) -> None:
        super().__init__(message)
        self.order = order
        """distance of the nearest model type: lower is nearer"""


def load_map(model_type: str) -> KeyMap:
    """Return the map of a `model_type`."""
    known = MODEL_TYPES.available()
    if model_type not in known:
        raise ConfigurationError(
            f"model_type: expected one of {', '.join(known)}, got {model_type!r}"
        )
    key_map: KeyMap = MODEL_TYPES.load_class(model_type)()
    return key_map


def find_class_map(config_json: Mapping[str, object]) -> KeyMap:
    """Return the map of the type, or of its variant, whose class wrote a config.json."""
    type_map = load_map(str(config_json.get("model_type")))
    return next(
        (variant for variant in type_map.variants() if variant.is_written_by(config_json)), type_map
    )


def find_map(
    config: ModelConfig, token_ids: Mapping[str, object], model_type: str | None = None
) -> KeyMap:
    """Return the map of a model type that can hold a model: the requested type, or the best one.

    Of the types that can hold the body, types whose heads are built like the model's are best, then
    types with a class for its heads, then types that share layers as it does. Of equal ones, the
    most general type is taken, then the first alphabetically.

    Raises:
        ConfigurationError: no type can hold it; the message says how the nearest type differs.
    """
    if model_type:
        maps = [load_map(model_type)]
        if (reason := maps[0].read_only) is not None:
            raise ConfigurationError(f"a model of type {model_type} cannot be exported: {reason}")
    else:  # general types before those that derive from them
        exportable = [each for each in MODEL_TYPES.classes().values() if each.read_only is None]
        maps = [map_class() for map_class in sorted(exportable, key=lambda cls: len(cls.__mro__))]

    maps += [variant for key_map in maps for variant in key_map.variants()]
    problems = {key_map: key_map.problems(config, token_ids) for key_map in maps}
    suitable = [key_map for key_map, problem in problems.items() if not problem.reasons]
    if suitable:
        return max(suitable, key=lambda key_map: key_map.match_score(config, token_ids))

    # no type can: name the nearest one, and how it differs
    families = sorted({str(other.configuration.fixed["family"]) for other in maps})
    if config.family not in families:
        raise NoClassError(
            "no model type of transformers computes what this model does: model.family: expected "
            f"{' or '.join(families)}, got {config.family}",
            (1, 0),
        )

    orders = {
        other: (
            other.configuration.fixed["family"] != config.family,
            not problem.is_complete,
            len(problem.reasons),
        )
        for other, problem in problems.items()
    }

    nearest = min(orders, key=lambda other: orders[other])
    width = config.attention_heads * config.head_width
    other_width = (
        f"{config.attention_heads} heads of head_dim {config.head_width} have {width} features, "
        f"but most classes need dim {config.dim}: such a model can only be stored in our format; "
        if width != config.dim
        else ""
    )

    raise NoClassError(
        f"no model type of transformers computes what this model does; {other_width}the nearest, "
        f"{nearest.model_type}, differs: " + "; ".join(problems[nearest].reasons),
        orders[nearest],
    )


def find_form(
    config: ModelConfig,
    token_ids: Mapping[str, object],
    model_type: str | None = None,
    *,
    body_alone: bool = False,
) -> tuple[ModelConfig, KeyMap]:
    """Return an equivalent form of a model that a type can hold, and the map of the type.

    Args:
        config: the model.
        token_ids: its special tokens.
        model_type: model type of transformers; None: any.
        body_alone: whether the heads do not matter.

    Raises:
        ConfigurationError: no type, or not the requested one, can hold any form; the message names
            our keys.
    """
    refused = list[NoClassError]()
    without_heads = list[tuple[ModelConfig, KeyMap]]()

    for form in equal_forms(config, token_ids):
        try:
            key_map = find_map(form, token_ids, model_type)
        except NoClassError as error:
            refused.append(error)
            continue
        if key_map.classes.find(form.heads) or body_alone:
            return form, key_map
        without_heads.append((form, key_map))

    if without_heads:
        return without_heads[0]
    raise min(refused, key=lambda error: error.order)


def equal_forms(config: ModelConfig, token_ids: Mapping[str, object]) -> Iterator[ModelConfig]:
    """Yield the configurations that compute the same as a model; the model's own comes first.

    They differ in rows of tables that no token reads. Rows of the position table before the first
    position are added or removed: RoBERTa has as many as the pad token's id plus one, BERT has
    none. A model without segment types gets a row of zeros if its family may have them.
    """
    offsets = [config.position.offset]

    if config.position.kind == "learned":
        pad = token_ids.get("pad_token_id")
        after_pad = [pad + 1] if isinstance(pad, int) and pad < MAX_OFFSET else []
        offsets += [*after_pad, 0, _BART_OFFSET]

    types = [config.type_vocab_size]
    has_types = FAMILIES.load_class(config.family).reads_key("type_vocab_size")
    if not config.type_vocab_size and config.architecture == "encoder" and has_types:
        types.append(1)
    for offset in dict.fromkeys(offsets):
        position = replace(config.position, offset=offset)
        for rows in types:
            yield replace(config, position=position, type_vocab_size=rows)
