"""Open the teacher of a distillation, and copy layers of it to a student."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from clozeline.columns import names_of
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.selection import split_name
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import COMPARED_LAYERS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.sharding import UNSHARDED, Placement, full_shape
from clozeline.model.registries import FAMILIES
from clozeline.pipeline.shards import ShardSet
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.model_source import row_multiple
from clozeline.train.data.sets.token_ids import refuse_other_ids
from clozeline.train.startup.initial_weights import (
    config_without_adapter,
)

_TOKEN_TABLE_KEY: Final = "family.tokens.weight"


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
    refuse_other_ids(opened.ids, shards, key)
    opened.refuse_other_meanings(shards)
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
    return replace(opened, checkpoint=checkpoint, added={})  # it scores all tokens


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
    line = f"weights    {copied} tensors from {source.folder}, layers {text}"
    return [line, *([f"           new: {', '.join(new)}"] if new else [])]


def _count_layers(names: Iterable[str]) -> dict[str, int]:
    """Return the number of layers of each stack."""
    counts: dict[str, int] = {}
    for stack, index, _ in filter(None, map(split_name, names)):
        counts[stack] = max(counts.get(stack, 0), index + 1)
    return counts
