"""Build the model that a run starts with: random weights, `model.init_from`, hooks around it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model, build_model, freeze_base
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.freezing import freeze
from clozeline.model.parameters.sharding import SHAPES, UNSHARDED, Placement
from clozeline.model.registries import FAMILIES
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.seeding import hash64
from clozeline.train.checkpoint.trained_model import (
    TrainedModel,
    refuse_other_base,
    token_bytes,
)
from clozeline.train.configuration.config import with_absolute_paths
from clozeline.train.data.sets.token_ids import OtherTokenizer, UnknownIds, compare_ids
from clozeline.train.engine import hooks_of_run
from clozeline.train.hooks import Hook, UnwrappedModel
from clozeline.train.startup.initial_weights import (
    load_initial,
    translate_source,
)
from clozeline.train.startup.start_or_resume import StartingPoint


class StartingModel(NamedTuple):
    """A model before its first step."""

    model: Model
    lines: list[str]
    """lines on the initialization, to print"""
    base: str
    """digest of the weights from `model.init_from`; empty if it is not set"""
    new: list[str]
    """parameters that `model.init_from` does not have"""
    hooks: Sequence[Hook] = ()
    """the hooks of the run, in the order of their calls"""


def build_random_model(
    model: ModelConfig, seed: int, shards: ShardSet, placement: Placement = UNSHARDED
) -> Model:
    """Return a model with random weights, which depend on `seed` only."""
    tokenizer = shards.manifest.tokenizer
    spellings = None
    if FAMILIES.load_class(model.family).reads_characters:
        spellings = token_bytes(load_tokenizer(find_tokenizer(shards.path, tokenizer.fingerprint)))
    return build_model(
        model,
        tokenizer.vocab_size,
        tokenizer.special_ids,
        spellings,
        seed=hash64("weights", seed),
        placement=placement,
    )


def build_starting_model(
    point: StartingPoint, shards: ShardSet, placement: Placement = UNSHARDED
) -> StartingModel:
    """Build and initialize the model, and let the hooks of the run wrap it.

    Raises:
        ClozelineError: the weights do not fit, or a hook does not fit model, data or checkpoint.
    """
    starting = _build_model(point, shards, placement)
    own = {name for name, _ in starting.model.named_parameters()}
    model, hooks = wrap_model(
        UnwrappedModel(starting.model, point.config, shards, placement, point.saved)
    )
    added = [name for name, _ in model.named_parameters() if name not in own]
    lines = [*starting.lines, *(line for hook in hooks for line in hook.lines)]
    return starting._replace(model=model, lines=lines, new=[*starting.new, *added], hooks=hooks)


def wrap_model(new: UnwrappedModel) -> tuple[Model, list[Hook]]:
    """Return a model as the hooks of its run wrap it, and these hooks."""
    hooks = hooks_of_run(new.config)
    for hook in hooks:
        new = replace(new, model=hook.wrap(new))
    return new.model, hooks


def _build_model(point: StartingPoint, shards: ShardSet, placement: Placement) -> StartingModel:
    """Build the model, initialize it from `model.init_from`, and freeze parameters.

    A resumed run reads `model.init_from` for an adapter, whose checkpoint has no other weights, and
    if another folder is named than at its first start: it must hold the same weights.
    """
    config = point.config
    model = build_random_model(config.model, config.seed, shards, placement)
    folder = config.model.init_from
    saved = point.saved
    if folder is None and model.adapters.active is not None:
        # a dry run counts parameters without weights
        needed = "model.adapter: needs the weights of an earlier model: set model.init_from"
        if placement is not SHAPES:
            raise ConfigurationError(f"{needed} to its run or folder")
        freeze_base(model)
        return StartingModel(model, [needed], "", [])
    if folder is None:
        return StartingModel(model, freeze(model, config.frozen_parameters), "", [])
    earlier = point.start.earlier.continued
    if (
        saved is None
        or model.adapters.active is not None
        or earlier is None
        or earlier.model.init_from != with_absolute_paths(folder)
    ):
        return _initialize(point, model, folder, shards, placement)

    # all weights are in the checkpoint
    new = [name for name, _ in model.named_parameters()]
    return StartingModel(model, freeze(model, config.frozen_parameters), saved.base, new)


def _compare_ids(source: TrainedModel, shards: ShardSet) -> tuple[OtherTokenizer | None, list[str]]:
    """Compare the ids of a source and a set; without a tokenizer of the source, return a line."""
    remedy = f"make the shards with the tokenizer of that model: tokenizer.path={source.folder}"
    try:
        return compare_ids(source.ids, shards, "model.init_from", remedy), []
    except UnknownIds:
        return None, [f"           ids not compared: {source.folder} has no tokenizer"]


def _initialize(
    point: StartingPoint, model: Model, folder: Path, shards: ShardSet, placement: Placement
) -> StartingModel:
    """Copy the weights that `model.init_from` and the model share, and freeze."""
    config = point.config
    adapter = model.adapters.active
    source = TrainedModel.open(folder, key="model.init_from", quantized=False)
    other, unknown = _compare_ids(source, shards)
    source.refuse_other_meanings(shards, labels=False)  # a head of other labels is new
    if adapter is not None and other is not None and any(other.parts.values()):
        raise ConfigurationError(
            f"model.init_from: {folder} has {other.known} ids, the tokenizer of the shards "
            f"{other.size}: an adapter freezes the embeddings, and the rows of new ids would never "
            "be trained; train without model.adapter first, and give that run as model.init_from"
        )

    # copy the weights
    translated = translate_source(model.config, source)
    filled = load_initial(
        model, translated, placement, config.init_parts, other if adapter is None else None
    )

    # start the adapter on top of them, and freeze them
    if point.saved is not None:
        refuse_other_base(folder, point.saved.base, filled.digest)
    if adapter is not None:
        if not any(name.startswith("adapters.") for name in filled.copied):
            seed = hash64("weights", config.seed)
            model.adapters[adapter].initialize_from(model.family, model.vocab_size, seed, placement)
        freeze_base(model, [name for name in filled.fresh if name.startswith("heads.")])

    unnamed = "           languages: that model does not say which number each one has"
    lines = [
        *filled.lines(),
        *freeze(model, config.frozen_parameters),
        *([] if other is None else [other.line()]),
        *unknown,
        *([unnamed] if model.config.languages and not source.recorded else []),
    ]

    return StartingModel(model, lines, filled.digest, filled.fresh)
