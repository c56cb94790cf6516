"""Plan an export: the class of transformers for a model, its parts, or a refusal.

A plan needs a configuration and the size of a vocabulary, but no weights. `new` and the start of a
training print the plan; `export-model` follows it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.extensions.published.conversion.export import (
    Export,
    continue_published,
    export_checkpoint,
    model_without_weights,
    select_heads,
    split_models,
)
from clozeline.extensions.published.conversion.published_texts import find_published
from clozeline.model.build import Model
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.checkpoints.sources import NewModel
from clozeline.model.configuration.model_config import ModelConfig, Quantization
from clozeline.model.registries import HEAD_KEYS
from clozeline.pipeline.tokenize.published.exporting import TextForm
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.recorded_sets import RecordedSet
from clozeline.train.data.sets.text_form import text_form, token_before_texts

CARD: Final = "README.md"
POOLS: Final = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
"""Our pools → modes of `Pooling` of sentence-transformers."""
POOLER: Final = "pooler"
_OF_RUN: Final = "run"
SIMILARITY: Final = "similarity"


@dataclass(frozen=True)
class ExportRequest:
    """What a user asks of an export."""

    model_type: str | None = None
    """model type of transformers; None: the original type, or the first that computes the same"""
    heads: tuple[str, ...] = ()
    """heads to export; empty: all"""
    body_alone: bool = False
    """export no heads, and of an encoder-decoder only the encoder"""
    pooling: str | None = None
    """`run`, `pooler` or one of `POOLS`: also write the modules of sentence-transformers"""
    quantization: Quantization | None = None
    """integers of torchao; None: floating-point weights"""


@dataclass(frozen=True)
class PlannedModel:
    """A folder that an export writes, for the model or one of its parts."""

    part: str
    """name of the part, such as generator; empty if the model has no parts"""
    architecture: str
    """class of transformers; empty if there is none"""
    lacks: str = ""
    """heads that are left out"""
    refusal: str = ""
    """keys that no class supports, and the values that a class would support"""
    others: Mapping[str, str] = field(default_factory=dict)
    """arguments of `export-model` → class of transformers with them"""


@dataclass(frozen=True)
class ExportPlan:
    """What an export writes."""

    request: ExportRequest
    models: tuple[PlannedModel, ...]
    texts: TextForm
    """how the tokenizer must read texts"""
    tokenizer: Path | None = None
    """folder of the tokenizer to export with the model; None if it has none"""
    pooling: str = ""
    """pool of text vectors for sentence-transformers; empty: do not write its modules"""
    notes: tuple[str, ...] = ()
    """sentences on what is not exported"""

    def lines(self) -> list[str]:
        """Return the lines to print."""
        lines = []
        for model in self.models:
            part = f"the {model.part} " if model.part else ""
            if model.architecture:
                named = f"{part}as {model.architecture} of transformers"
                lines.append(", ".join(filter(None, [named, model.lacks])))
                continue
            lines.append(f"{part}not possible: {model.refusal}")
            lines += [
                f"  with {words} as {architecture}" for words, architecture in model.others.items()
            ]
        return [f"{'export' if number == 0 else '':11}{line}" for number, line in enumerate(lines)]


def plan_export(
    checkpoint: Checkpoint,
    request: ExportRequest | None = None,
    *,
    tokenizer: Path | None = None,
    recorded: Sequence[RecordedSet] = (),
) -> ExportPlan:
    """Return the plan of an export, by a conversion of tensors without values.

    Args:
        checkpoint: the model in the form of `exported_form`; its weights are not read.
        request: what to export; default: the entire model.
        tokenizer: folder of its tokenizer; None if it is missing.
        recorded: the sets on which it was trained; empty if they are not known.

    Raises:
        ConfigurationError: the model has no such head, or was trained with another pool.
    """
    request = request or ExportRequest()
    pooling = _choose_pooling(checkpoint.config, request, tokenizer) if request.pooling else ""
    tensors = {name: tensor.to("meta") for name, tensor in checkpoint.tensors.items()}
    unread = {name: tensor.to("meta") for name, tensor in checkpoint.unread.items()}
    parts = parts_of(replace(checkpoint, tensors=tensors, unread=unread), request)
    return ExportPlan(
        request,
        tuple(_plan_part(name, part, request) for name, part in parts.items()),
        text_form(checkpoint.config, recorded),
        tokenizer,
        pooling,
        without_added_keys(checkpoint).notes,
    )


def parts_of(checkpoint: Checkpoint, request: ExportRequest) -> dict[str, Checkpoint]:
    """Return the models that an export writes by name, with the exported heads."""
    checkpoint = without_added_keys(checkpoint)
    return split_models(select_heads(checkpoint, request.heads) if request.heads else checkpoint)


def export_part(name: str, part: Checkpoint, request: ExportRequest) -> tuple[Export, str]:
    """Convert a model, or one of two in a run, and say what is left out.

    Of one of two, the body is converted where no class has its heads.
    """
    convert = partial(export_checkpoint, part, model_type=request.model_type)
    try:
        return convert(body_alone=request.body_alone), ""
    except ConfigurationError:
        with suppress(ClozelineError):
            if name:
                heads = ", ".join(part.config.heads)
                return convert(body_alone=True), f"without its head ({heads}), which no class has"
        raise


def _plan_part(name: str, part: Checkpoint, request: ExportRequest) -> PlannedModel:
    try:
        export, lacks = export_part(name, part, request)
    except ClozelineError as error:
        return PlannedModel(name, "", refusal=str(error), others=dict(_other_exports(part)))

    return PlannedModel(name, export.architecture, lacks)


def _other_exports(part: Checkpoint) -> Iterator[tuple[str, str]]:
    """Yield the arguments of exports with one head or without heads, and their classes."""
    heads = part.config.heads if len(part.config.heads) > 1 else ()
    attempts = [(f"head={head}", select_heads(part, [head]), False) for head in heads]
    for words, model, body_alone in [*attempts, ("parts=encoder", part, True)]:
        try:
            yield words, export_checkpoint(model, body_alone=body_alone).architecture
        except ClozelineError:
            continue


def _choose_pooling(config: ModelConfig, request: ExportRequest, tokenizer: Path | None) -> str:
    """Return the pool of an export: the pool of its training, else the requested one.

    Raises:
        ConfigurationError: the model cannot be pooled, or was trained with another pool.
    """
    asked = request.pooling or _OF_RUN
    if config.architecture == "decoder" or not request.body_alone or tokenizer is None:
        raise ConfigurationError(
            "pooling: expected a model with an encoder and its tokenizer, and parts=encoder: "
            "sentence embeddings are read from the encoder alone"
        )

    # the pool of the training, or without one any
    trained = (_trained_pool(config, name) for name in config.heads)
    pool = next(filter(None, trained), None)
    if pool is None and asked in POOLS:
        return asked
    if pool and pool in (*POOLS, POOLER) and asked in (_OF_RUN, pool):
        return pool
    raise ConfigurationError(
        f"pooling: expected one of {', '.join(POOLS)}, that of the training if it had one, got "
        f"{asked}: this model was trained {f'with the pool {pool}' if pool else 'without a pool'}"
    )


def _trained_pool(config: ModelConfig, name: str) -> str | None:
    """Return the pool of the text vectors that a head was trained on; None if it read none."""
    pool = config.heads[name].pool
    if config.targets[name] == SIMILARITY:
        return pool or POOLER
    return pool if pool in POOLS else None


# -- the form in which a model is exported
# ----------------------------------------------------------------------------


def exported_form(trained: TrainedModel) -> Checkpoint:
    """Return the model as it is exported: with its adapter merged, and its published files."""
    # the longest rows, and the role that starts texts
    checkpoint = (
        with_row_length(trained.checkpoint, trained.recorded[0].max_length)
        if trained.config
        else trained.checkpoint
    )

    if trained.recorded:
        start = token_before_texts(trained.recorded[0])
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "bos_token_id": start})

    # merge the adapter into a copy: a merge changes weights in place
    if checkpoint.config.adapter is not None:
        copies = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
        model = build_checkpoint(replace(checkpoint, tensors=copies))
        model.adapters.merge(checkpoint.config.adapter.name)
        config = replace(checkpoint.config, adapter=None)
        checkpoint = replace(checkpoint, config=config, tensors=base_weights(model), trained=())

    # the files of a published model that the training continued
    published = find_published(trained.folder)
    if trained.config is None:
        return replace(checkpoint, published=published)
    return _with_published(checkpoint, published, trained.tokenizer_folder)


def base_weights(model: Model) -> dict[str, Tensor]:
    """Return the weights of a model without its adapter."""
    return {
        name: parameter.detach()
        for name, parameter in model.named_parameters()
        if not name.startswith("adapters.")
    }


def with_row_length(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Return the model with the length of its rows in `position.maximum`.

    A model with a position table stays as it is.
    """
    position = checkpoint.config.position
    if position.kind != "rope":
        return checkpoint
    position = replace(position, maximum=max(position.maximum, length))
    return replace(checkpoint, config=replace(checkpoint.config, position=position))


def _with_published(
    checkpoint: Checkpoint, published: Mapping[str, str], tokenizer: Path | None
) -> Checkpoint:
    """Return a trained model with the published files of the model that it continues.

    The id of a pad token that only ends texts is removed: transformers would give it no gradient.

    Args:
        checkpoint: the model, without an adapter.
        published: files of the model that the training continued, as texts; may be empty.
        tokenizer: folder of its tokenizer; None if it is missing.
    """
    pads = {key: value for key, value in checkpoint.token_ids.items() if key == "pad_token_id"}
    if tokenizer is not None and PublishedMetadata.find(tokenizer).pad_by_eos:
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "pad_token_id": None})
    checkpoint = continue_published(checkpoint, published) if published else checkpoint
    config = checkpoint.config
    if config.architecture == "decoder" and {*config.targets.values()} != {"lm"}:
        # classes with heads of rows read the state before the first pad
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, **pads})
    return checkpoint


def without_added_keys(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model without what keys of extensions add to heads: no class has it."""
    config = checkpoint.config
    keys = {name: key for name, head in config.heads.items() for key in head.parts()}
    if not keys:
        return checkpoint
    unset: dict[str, Any] = dict.fromkeys(HEAD_KEYS.available())
    heads = config.heads | {name: replace(config.heads[name], **unset) for name in keys}
    left_out = {module for key in keys.values() for module in key.modules}
    tensors = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if left_out.isdisjoint(name.split("."))
    }
    note = f"without {', '.join(key.lacking.format(name) for name, key in keys.items())}"
    return replace(
        checkpoint,
        config=replace(config, heads=heads),
        tensors=tensors,
        notes=(*checkpoint.notes, note),
    )


# -- plans before a training
# ------------------------------------------------------------------------------------------


def plan_of_new_model(model: NewModel) -> ExportPlan:
    """Return what `export-model` will write for a model that is not trained yet."""
    try:
        published = next(filter(None, map(find_published, model.continues)), {})
        checkpoint = model_without_weights(model.config, model.vocab_size, model.token_ids)
        checkpoint = _with_published(
            with_row_length(checkpoint, model.max_length), published, model.tokenizer
        )
        return plan_export(checkpoint, tokenizer=model.tokenizer)
    except ClozelineError as error:  # the error of an export does not stop the training
        return ExportPlan(ExportRequest(), (PlannedModel("", "", refusal=str(error)),), TextForm())
