"""Build the model that a run starts with: random weights, `model.init_from`, distillation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from clozeline.columns import names_of
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import Model, build_model, freeze_base
from clozeline.model.compression.distillation.student import Student, Teacher
from clozeline.model.compression.selection import split_name
from clozeline.model.configuration.capabilities import COMPARED_LAYERS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.freezing import freeze
from clozeline.model.parameters.sharding import UNSHARDED, Placement, full_shape
from clozeline.model.registries import FAMILIES
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.seeding import hash64
from clozeline.train.checkpoint.trained_model import TrainedModel, refuse_other_base, token_bytes
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.model_source import row_multiple
from clozeline.train.data.sets.stored_scores import read_stored_scores
from clozeline.train.startup.initial_weights import (
    compare_tokenizers,
    config_without_adapter,
    load_initial,
    refuse_other_tokenizer,
    translate_source,
)
from clozeline.train.startup.start_or_resume import StartingPoint

_TOKEN_TABLE_KEY: Final = "family.tokens.weight"


class StartingModel(NamedTuple):
    """A model before its first step."""

    model: Model
    lines: list[str]
    """lines on the initialization, to print"""
    base: str
    """digest of the weights from `model.init_from`; empty if it is not set"""
    new: list[str]
    """parameters that `model.init_from` does not have"""
    teacher: Teacher | None = None
    """teacher of a distillation, in memory"""
    distillation: Mapping[str, Any] = MappingProxyType({})
    """digest of the teacher's weights, and the layers that each loss compares"""
    unread: str = ""
    """a line on why a resumed run could not read `model.init_from`; empty if it could"""


def build_random_model(
    config: TrainConfig, shards: ShardSet, placement: Placement = UNSHARDED
) -> Model:
    """Return the model with random weights, which depend on `seed` only."""
    tokenizer = shards.manifest.tokenizer
    spellings = None
    if FAMILIES.load_class(config.model.family).reads_characters:
        spellings = token_bytes(load_tokenizer(find_tokenizer(shards.path, tokenizer.fingerprint)))
    return build_model(
        config.model,
        tokenizer.vocab_size,
        tokenizer.special_ids,
        spellings,
        seed=hash64("weights", config.seed),
        placement=placement,
    )


def build_starting_model(
    point: StartingPoint, shards: ShardSet, placement: Placement = UNSHARDED
) -> StartingModel:
    """Build and initialize the model; with `distil`, as the student of a teacher.

    Raises:
        ClozelineError: the weights or the teacher do not fit, or a resumed run has another teacher.
    """
    starting = _build_model(point, shards, placement)
    config = point.config
    if config.prune is not None:
        starting.lines.append(
            config.prune.build().describe(starting.model, config.schedule.options.steps)
        )

    if config.distil is None:
        return starting

    # wrap it as a student
    resumed = point.saved is not None
    student, teacher, record, lines = prepare_student(
        config, starting.model, shards, placement, resumed=resumed
    )
    if point.saved is not None:
        refuse_other_teacher(point.saved.distillation, record, config.distil.teacher)
    new = [*starting.new, *(name for name, _ in student.new_parameters())]
    lines = [*starting.lines, *lines]
    return starting._replace(
        model=student, lines=lines, new=new, teacher=teacher, distillation=record
    )


def _build_model(point: StartingPoint, shards: ShardSet, placement: Placement) -> StartingModel:
    """Build the model, initialize it from `model.init_from`, and freeze parameters.

    A resumed run also reads `model.init_from`, to record the distance from it. Only an adapter
    needs it there: other checkpoints hold all weights.
    """
    config = point.config
    model = build_random_model(config, shards, placement)
    folder = config.model.init_from
    saved = point.saved
    if folder is None:
        return StartingModel(model, freeze(model, config.frozen_parameters), "", [])
    if saved is None or model.adapter_in_use is not None:
        return _initialize(point, model, folder, shards, placement)

    # of a resumed run, the weights are in the checkpoint: the source may be missing
    try:
        starting = _initialize(point, model, folder, shards, placement)
    except ClozelineError as error:
        lines = freeze(model, config.frozen_parameters)
        new = [name for name, _ in model.named_parameters()]
        unread = f"distance   not recorded, because the initial weights cannot be read: {error}"
        return StartingModel(model, lines, saved.base, new, unread=unread)

    return starting._replace(lines=freeze(model, config.frozen_parameters))


def _initialize(
    point: StartingPoint, model: Model, folder: Path, shards: ShardSet, placement: Placement
) -> StartingModel:
    """Copy the weights that `model.init_from` and the model share, and freeze."""
    config = point.config
    adapter = model.adapter_in_use
    source = TrainedModel.open(folder, key="model.init_from", quantized=False)
    other = compare_tokenizers(source, shards)
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

    lines = [
        *filled.lines(),
        *freeze(model, config.frozen_parameters),
        *([] if other is None else [other.line()]),
    ]

    return StartingModel(model, lines, filled.digest, filled.fresh)


class Distillation(NamedTuple):
    """A student, its teacher, and their description in checkpoints."""

    student: Student
    teacher: Teacher | None
    record: dict[str, Any]
    lines: list[str]


def prepare_student(
    config: TrainConfig,
    model: Model,
    shards: ShardSet,
    placement: Placement = UNSHARDED,
    *,
    resumed: bool = False,
) -> Distillation:
    """Wrap a model as a student, open its teacher, and copy the layers to start from.

    Raises:
        ConfigurationError: the teacher has another tokenizer or architecture, or lacks what a loss
            or a copy needs.
        CheckpointError: the teacher's run has no valid checkpoint.
    """
    # check that there is a teacher, or its scores
    distil = config.distil

    assert distil is not None

    stored = read_stored_scores(shards)
    if distil.teacher is None and not (distil.active and stored):
        names = ", ".join(loss.name for loss in distil.losses)
        raise ConfigurationError(
            f"distil.teacher: {names} needs a teacher: set it to a run or a model folder, or use a "
            f"set with scores of a teacher ({shards.path} has none)"
        )

    @cache
    def open_source(source: Path) -> TrainedModel:
        key = "distil.teacher" if source == distil.teacher else "distil.start"
        return open_teacher(source, config.model, shards, key)

    # start from the layers of the teacher, unless a checkpoint has the weights
    lines: list[str] = []
    if distil.start is not None and distil.start_from is not None and not resumed:
        source = open_source(distil.start_from)
        lines += copy_layers(model, source, distil.start.layers, placement)

    # the student, with its projections
    trained = None if distil.teacher is None else open_source(distil.teacher)
    seed = hash64("weights", config.seed)
    student = Student(
        model,
        distil.active,
        None if trained is None else trained.checkpoint.config,
        seed,
        placement,
        distil.progressive,
    )

    lines += student.lines()

    # without a teacher: stored scores
    record: dict[str, Any] = {"layers": student.layer_maps}

    if trained is None:
        skipped = [loss.name for loss in distil.losses if loss not in distil.active]
        if distil.start is not None and distil.start_from is None:
            skipped.append("start.layers")
        if skipped:
            lines.append(f"           no teacher in memory: without {', '.join(skipped)}")
        if stored is not None:
            record["digest"] = stored.digest
            lines.append(f"           {stored}")
        return Distillation(student, None, record, lines)

    # the teacher in memory
    teacher = Teacher(trained.model, student.teacher_tensors)
    lines.append(
        f"           teacher {trained.folder}: {teacher.model.num_parameters():,} parameters, "
        f"{trained.weights_digest}"
    )
    record["digest"] = trained.weights_digest
    return Distillation(student, teacher, record, lines)


def refuse_other_teacher(
    saved: Mapping[str, object], now: Mapping[str, object], source: Path | None
) -> None:
    """Refuse to resume with a teacher other than the teacher of the checkpoint, by its weights."""
    if (before := saved.get("digest")) != (after := now.get("digest")):
        source = source or Path("the stored scores")
        raise ConfigurationError(
            f"distil.teacher: {source}: the student was trained with a teacher of digest {before}, "
            f"this one has {after}: it is another model, or was trained further; give the same "
            "weights"
        )


def open_teacher(
    source: Path, student: ModelConfig | None, shards: ShardSet, key: str
) -> TrainedModel:
    """Open a teacher, and check that it can read what its student reads.

    Args:
        source: a run or a model folder.
        student: the student; None if there is none yet.
        shards: a set that both read.
        key: the configuration key that names the source, for messages.

    Raises:
        ConfigurationError: it has another tokenizer, architecture, vocabulary or family, or too few
            positions.
    """
    # family and architecture
    opened = TrainedModel.open(source, key=key, quantized=False)
    config = config_without_adapter(opened, key)
    student = student or config

    if COMPARED_LAYERS in FAMILIES.load_class(config.family).prevents:
        raise ConfigurationError(
            f"{key}: {source}: needs {COMPARED_LAYERS.what}, got {config.family}"
        )

    if config.architecture != student.architecture:
        raise ConfigurationError(
            f"{key}: {source}: expected a model of the student's architecture "
            f"{student.architecture}, got {config.architecture}"
        )

    # tokenizer, vocabulary, positions and inputs
    refuse_other_tokenizer(opened, shards, key)
    vocab_size = shards.manifest.tokenizer.vocab_size
    rows = len(opened.checkpoint.tensors[_TOKEN_TABLE_KEY])
    if (multiple := row_multiple(rows, vocab_size)) is None:
        raise ConfigurationError(
            f"{key}: {source}: expected a table for {vocab_size} ids, got {rows} rows"
        )

    limit = config.position_limit
    longest = shards.manifest.max_length
    if limit is not None and longest > limit:
        raise ConfigurationError(
            f"{key}: {source}: rows of {shards.path} have up to {longest} tokens, the teacher has "
            f"{limit} positions: group into shorter rows, or take another teacher"
        )

    theirs, ours = (FAMILIES.load_class(model.family).reads for model in (config, student))

    if missing := names_of(theirs) - names_of(ours):
        raise ConfigurationError(
            f"{key}: {source} reads {', '.join(sorted(missing))}, which the student does not read"
        )

    config = replace(config, vocab_multiple=multiple, init_from=None)
    checkpoint = replace(opened.checkpoint, config=config, vocab_size=vocab_size)
    return replace(opened, checkpoint=checkpoint, token_rule={})  # it scores all tokens


def copy_layers(
    model: Model, source: TrainedModel, layers: Sequence[int], placement: Placement = UNSHARDED
) -> list[str]:
    """Copy layers, embeddings and heads of a teacher, bit by bit; return the lines to print.

    Args:
        model: the student.
        source: the teacher.
        layers: layer of the teacher for each layer of every stack of the student, from 0.
        placement: where the student's parameters are.

    Raises:
        ConfigurationError: there is no such layer, or it has another shape.
    """
    # check the numbers of layers
    ours = dict(model.named_parameters())
    tensors = source.checkpoint.tensors
    there = _count_layers(tensors)

    for stack, count in _count_layers(ours).items():
        if count != len(layers):
            raise ConfigurationError(
                f"distil.start.layers: expected {count}, one for each layer, got {len(layers)}"
            )
        if beyond := [layer for layer in layers if layer >= there.get(stack, 0)]:
            raise ConfigurationError(
                f"distil.start.layers: {source.folder} has the layers 0 to "
                f"{there.get(stack, 0) - 1}, got {beyond[0]}"
            )

    # copy
    copied = 0
    new = []

    with torch.no_grad():
        for name, parameter in ours.items():
            parts = split_name(name)
            origin = name if parts is None else f"{parts[0]}{layers[parts[1]]}.{parts[2]}"
            if origin not in tensors:
                new.append(name)
                continue

            if (shape := list(full_shape(parameter))) != (other := list(tensors[origin].shape)):
                raise ConfigurationError(
                    f"distil.start: {source.folder}: {origin} has shape {other} there, {shape} "
                    "here: a student of other widths cannot start from layers; remove the key"
                )

            with placement.gather([parameter]):
                parameter.copy_(tensors[origin])
            copied += 1

    text = " ".join(f"{here}←{there}" for here, there in enumerate(layers))
    line = f"weights    {copied} parameters from {source.folder}, layers {text}"
    return [line, *([f"           new: {', '.join(new)}"] if new else [])]


def _count_layers(names: Iterable[str]) -> dict[str, int]:
    """Return the number of layers of each stack."""
    counts: dict[str, int] = {}
    for stack, index, _ in filter(None, map(split_name, names)):
        counts[stack] = max(counts.get(stack, 0), index + 1)
    return counts
