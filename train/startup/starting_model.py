"""Build the model that a run starts with: initialize it from the seed, then load `model.init_from`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.model.adaptation import freeze_base
from clozeline.model.build import Model, build_model
from clozeline.model.parameters.sharding import WHOLE, Placement
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.registry import find
from clozeline.seeding import hash64
from clozeline.train.compression.distillation.teacher import Teacher
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.optim.weights.freezing import freeze
from clozeline.train.startup.initial_weights import fill, translate_source
from clozeline.train.startup.open_run import open_run, refuse_other_base, token_bytes
from clozeline.train.startup.source_tokenizer import compare_tokenizers
from clozeline.train.startup.start_or_resume import StartingPoint
from clozeline.train.startup.teacher_model import prepare_student, refuse_other_teacher


class StartingModel(NamedTuple):
    """A model before its first step."""

    model: Model
    lines: list[str]
    """report of the initialization, to print"""
    base: str
    """digest of the frozen weights under an adapter; empty: there is no adapter"""
    new: list[str]
    """parameters that `model.init_from` does not have"""
    teacher: Teacher | None = None
    """teacher of a distillation, in memory"""
    distillation: Mapping[str, Any] = MappingProxyType({})
    """digest of the teacher's weights, and the layers that each loss compares"""


def build_random_model(config: TrainConfig, shards: ShardSet, placement: Placement = WHOLE) -> Model:
    """Return the model with random weights, a function of `seed` only."""
    facts, spellings = shards.manifest.tokenizer, None
    if find("clozeline.model.families", config.model.family).reads_characters:
        spellings = token_bytes(load_tokenizer(find_tokenizer(shards.path, facts.fingerprint)))
    seed = hash64("weights", config.seed)
    return build_model(config.model, facts.vocab_size, facts.special_ids, spellings, seed=seed, placement=placement)


def build_starting_model(point: StartingPoint, shards: ShardSet, placement: Placement = WHOLE) -> StartingModel:
    """Build and initialize the model; with `distil`, as the student of a teacher.

    Raises:
        ClozelineError: see `_build_model` and `prepare_student`; or a resumed run has another teacher.
    """
    starting, config = _build_model(point, shards, placement), point.config
    if config.prune is not None:
        starting.lines.append(config.prune.build().describe(starting.model, config.schedule.options.steps))
    if config.distil is None:
        return starting
    resumed = point.saved is not None
    student, teacher, record, lines = prepare_student(config, starting.model, shards, placement, resumed=resumed)
    if point.saved is not None:
        refuse_other_teacher(point.saved.distillation, record, config.distil.teacher)
    new = [*starting.new, *(name for name, _ in student.new_parameters())]
    return StartingModel(student, [*starting.lines, *lines], starting.base, new, teacher, record)


def _build_model(point: StartingPoint, shards: ShardSet, placement: Placement) -> StartingModel:
    """Build the model, initialize it from `model.init_from`, and freeze what the configuration freezes.

    A resumed run reads `model.init_from` only for an adapter: its checkpoint holds all other weights.
    """
    config = point.config
    model = build_random_model(config, shards, placement)
    folder, adapter = config.model.init_from, model.adapter_in_use
    if folder is None or (point.checkpoint is not None and adapter is None):
        return StartingModel(model, freeze(model, config.freeze), "", [])
    # copy the weights that source and model share
    source = open_run(folder, key="model.init_from", quantized=False)
    other = compare_tokenizers(source, shards)
    if adapter is not None and other is not None and any(other.parts.values()):
        raise ConfigurationError(
            f"model.init_from: {folder} has {other.known} ids, the tokenizer of the shards {other.size}: an adapter "
            "freezes the embeddings, so that the rows of new ids would never be trained; continue the training without "
            "model.adapter first, and give that run as model.init_from"
        )
    translated = translate_source(model.config, source)
    filled = fill(model, translated, placement, config.init_parts, other if adapter is None else None)
    # start the adapter on top of them, and freeze them
    base = "" if adapter is None else filled.digest
    if point.saved is not None:
        refuse_other_base(folder, point.saved.base, base)
    if adapter is not None:
        if not any(name.startswith("adapters.") for name in filled.copied):
            seed = hash64("weights", config.seed)
            model.adapters[adapter].initialize_from(model.family, model.vocab_size, seed, placement)
        freeze_base(model, [name for name in filled.fresh if name.startswith("heads.")])
    lines = [*filled.lines(), *freeze(model, config.freeze), *([] if other is None else [other.line()])]
    return StartingModel(model, lines, base, filled.fresh)
