"""Plan an export: the class of transformers that holds a model, its parts and its files, or why there is none.

A plan needs a configuration and the facts of a vocabulary, and no weights: `new` and the start of a
training print it, `export-model` writes by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import Model, merge_adapter
from clozeline.model.checkpoints import (
    Checkpoint,
    Export,
    build_checkpoint,
    continue_published,
    export_checkpoint,
    find_published,
    model_without_weights,
    split,
    weight_files,
    with_heads,
)
from clozeline.model.configuration.head import ExitHeadOptions
from clozeline.model.configuration.model_config import ModelConfig, Quantization
from clozeline.pipeline.tokenize.published.exporting import TextForm, tokenizer_files
from clozeline.pipeline.tokenize.published.folders import GENERATION, MODEL
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.train.checkpoint.trained_model import TrainedModel, token_ids
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.data.sets.recorded_sets import RecordedSet, describe_set
from clozeline.train.data.sets.text_form import role_before_texts, text_form

CARD: Final = "README.md"
POOLS: Final = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
"""Pools of ours, and the modes of `Pooling` of sentence-transformers for them."""
POOLER: Final = "pooler"
_OF_RUN: Final = "run"
POOLINGS: Final = (_OF_RUN, *POOLS, POOLER)
SIMILARITY: Final = "similarity"


@dataclass(frozen=True)
class ExportRequest:
    """What a user asks of an export."""

    model_type: str | None = None
    """of transformers; None: the original one, or the first that computes the same"""
    heads: tuple[str, ...] = ()
    """heads that are exported; empty: all"""
    body_alone: bool = False
    """without the heads; of an encoder-decoder only the encoder"""
    pooling: str | None = None
    """one of `POOLINGS`: write the modules of sentence-transformers, too"""
    max_shard_size: int = 50 * 10**9
    """bytes of the largest file of weights"""
    quantization: Quantization | None = None
    """kind of integers of torchao; None: floating-point weights"""


@dataclass(frozen=True)
class PlannedModel:
    """A folder that an export writes: of a model, or of one of the models in it."""

    part: str
    """name of the model, such as generator; empty: there is one"""
    architecture: str
    """class of transformers; empty: none"""
    heads: tuple[str, ...] = ()
    parameters: int = 0
    refusal: str = ""
    """the keys by which it has no class, and the values that would give it one"""
    others: Mapping[str, str] = field(default_factory=dict)
    """words for `export-model` under which it has a class, and this class"""
    files: tuple[str, ...] = ()
    """files of the folder; config.json, which every loader needs, is the last one written"""


@dataclass(frozen=True)
class ExportPlan:
    """What an export writes."""

    request: ExportRequest
    models: tuple[PlannedModel, ...]
    texts: TextForm
    """how the tokenizer must read texts"""
    tokenizer: Path | None = None
    """folder of the tokenizer that is exported with the model; None: there is none"""
    pooling: str = ""
    """pool of the vectors of texts, for sentence-transformers; empty: its modules are not
    written"""
    notes: tuple[str, ...] = ()
    """what is left out, for people"""

    def lines(self) -> list[str]:
        """Return the lines that tell people of the plan."""
        lines = []
        for model in self.models:
            named = f"the {model.part} " if model.part else ""
            if model.architecture:
                lines.append(f"{named}as {model.architecture} of transformers")
                continue
            lines.append(f"{named}not as it is: {model.refusal}")
            lines += [
                f"  with {words} as {architecture}" for words, architecture in model.others.items()
            ]
        return [f"{'export' if number == 0 else '':11}{line}" for number, line in enumerate(lines)]

    def file_lines(self) -> list[str]:
        """Return the files of each folder, in the order in which they are written."""
        return [
            f"{model.part or 'files':11}{', '.join(model.files)}"
            for model in self.models
            if model.files
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        facts = asdict(self)
        facts["tokenizer"] = None if self.tokenizer is None else str(self.tokenizer)
        return facts


def plan_export(
    checkpoint: Checkpoint,
    request: ExportRequest | None = None,
    *,
    tokenizer: Path | None = None,
    recorded: Sequence[RecordedSet] = (),
) -> ExportPlan:
    """Return the plan of an export: it is the conversion itself on tensors without values, so that the two agree.

    Args:
        checkpoint: the model in the form of `exported_form`; its weights are not read.
        request: what is asked of the export; default: all of the model.
        tokenizer: folder of its tokenizer; None: it is not there.
        recorded: the sets on which it was trained; empty: they are not known.

    Raises:
        ConfigurationError: the model has no such head, or the pool of its training is another one.
    """
    request = request or ExportRequest()
    pooling = _choose_pooling(checkpoint.config, request, tokenizer) if request.pooling else ""
    tensors = {name: tensor.to("meta") for name, tensor in checkpoint.tensors.items()}
    unread = {name: tensor.to("meta") for name, tensor in checkpoint.unread.items()}
    parts = parts_of(replace(checkpoint, tensors=tensors, unread=unread), request)
    plan = ExportPlan(
        request,
        (),
        text_form(checkpoint.config, recorded),
        tokenizer,
        pooling,
        without_off_ramps(checkpoint).notes,
    )
    return replace(plan, models=tuple(_plan_part(name, part, plan) for name, part in parts.items()))


def parts_of(checkpoint: Checkpoint, request: ExportRequest) -> dict[str, Checkpoint]:
    """Return the models that an export writes, by name, with the heads that it writes."""
    checkpoint = without_off_ramps(checkpoint)
    return split(with_heads(checkpoint, request.heads) if request.heads else checkpoint)


def _plan_part(name: str, part: Checkpoint, plan: ExportPlan) -> PlannedModel:
    try:
        export = export_checkpoint(
            part, model_type=plan.request.model_type, body_alone=plan.request.body_alone
        )
    except ClozelineError as error:
        return PlannedModel(name, "", refusal=str(error), others=dict(_other_exports(part)))
    return PlannedModel(
        name,
        export.architecture,
        () if plan.request.body_alone else tuple(part.config.heads),
        sum(tensor.numel() for tensor in export.tensors.values()),
        files=tuple(_files_of(export, part, plan)),
    )


def _files_of(export: Export, part: Checkpoint, plan: ExportPlan) -> Iterator[str]:
    """Yield the files of a folder, in the order in which they are written."""
    if plan.tokenizer is not None:
        yield from sorted(map(str, tokenizer_files(plan.tokenizer)))
    if plan.request.quantization is None:
        yield from weight_files(export.tensors, plan.request.max_shard_size)
    else:
        yield "model.safetensors"
    if plan.pooling:
        yield from ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
        yield from (
            ("2_Dense/config.json", "2_Dense/model.safetensors") if plan.pooling == POOLER else ()
        )
    carried = plan.tokenizer is not None and Path(GENERATION) in tokenizer_files(plan.tokenizer)
    if export.generation and not carried and (GENERATION in part.published or not part.published):
        yield GENERATION
    yield from (CARD, MODEL)


def _other_exports(part: Checkpoint) -> Iterator[tuple[str, str]]:
    """Yield the words under which a model has a class, and the class: with one of its heads, or without them."""
    heads = part.config.heads if len(part.config.heads) > 1 else ()
    attempts = [(f"head={head}", with_heads(part, [head]), False) for head in heads]
    for words, model, body_alone in [*attempts, ("parts=encoder", part, True)]:
        try:
            yield words, export_checkpoint(model, body_alone=body_alone).architecture
        except ClozelineError:
            continue


def _choose_pooling(config: ModelConfig, request: ExportRequest, tokenizer: Path | None) -> str:
    """Return the pool of an export: that of the run's vectors, or the one that was asked for if the run has none.

    Raises:
        ConfigurationError: a model that cannot be pooled, or a pool other than that of its
            training.
    """
    asked = request.pooling
    if config.architecture == "decoder":
        later = "whose positions do not see later tokens"
        raise ConfigurationError(
            f"pooling: expected a model with an encoder, got a decoder, {later}"
        )
    if not request.body_alone:
        raise ConfigurationError(
            "pooling: embeddings are read from the encoder alone; add parts=encoder"
        )
    if tokenizer is None:
        raise ConfigurationError(
            "pooling: a model of sentence embeddings needs its tokenizer, and none was found"
        )
    trained = {
        name: pool for name in config.heads if (pool := _trained_pool(config, name)) is not None
    }
    if not trained:
        if asked in (None, _OF_RUN, POOLER):
            raise ConfigurationError(
                f"pooling: expected one of {', '.join(POOLS)}, got {asked}: no head of this model "
                "was trained on "
                "vectors of texts"
            )
        return asked
    name, pool = next(iter(trained.items()))
    if pool not in (*POOLS, POOLER):
        raise ConfigurationError(
            f"pooling: model.heads.{name}.pool: expected one of {', '.join(POOLS)}, got {pool}, "
            "for which "
            "sentence-transformers has no module"
        )
    if asked not in (_OF_RUN, pool):
        raise ConfigurationError(
            f"pooling: expected {pool}, on which model.heads.{name} was trained, got {asked}: "
            f"give pooling={_OF_RUN}"
        )
    return pool


def _trained_pool(config: ModelConfig, name: str) -> str | None:
    """Return the pool of the vectors on which a head was trained; None if it read no vector of one text."""
    pool = config.heads[name].pool
    if config.targets[name] == SIMILARITY:
        return pool or POOLER
    return pool if pool in POOLS else None


# -- the form in which a model is exported
# ----------------------------------------------------------------------------


def exported_form(trained: TrainedModel) -> Checkpoint:
    """Return the model as it is exported, an adapter merged, with the texts that its source was published by."""
    checkpoint = (
        with_row_length(trained.checkpoint, trained.recorded)
        if trained.config
        else trained.checkpoint
    )
    if trained.recorded:
        first = trained.recorded[0]
        role = role_before_texts(first)
        special_ids = first.tokenizer.special_ids
        start = None if role is None else special_ids.get(role)
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "bos_token_id": start})
    if checkpoint.config.adapter is not None:
        # a merge changes weights in place, and those of the run stay
        own = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
        model = build_checkpoint(replace(checkpoint, tensors=own))
        merge_adapter(model, checkpoint.config.adapter.name)
        config = replace(checkpoint.config, adapter=None)
        checkpoint = replace(checkpoint, config=config, tensors=base_weights(model), trained=())
    published = find_published(trained.folder)
    if trained.config is None:
        return replace(checkpoint, published=published)
    return _with_published(checkpoint, published, trained.tokenizer_folder)


def base_weights(model: Model) -> dict[str, Tensor]:
    """Return the weights of a model without those of its adapter."""
    return {
        name: own.detach()
        for name, own in model.named_parameters()
        if not name.startswith("adapters.")
    }


def with_row_length(checkpoint: Checkpoint, recorded: Sequence[RecordedSet]) -> Checkpoint:
    """Return the model; without a position table, `position.maximum` records the longest rows of its first set."""
    position = checkpoint.config.position
    if position.kind != "rope":
        return checkpoint
    position = replace(position, maximum=max(position.maximum, recorded[0].max_length))
    return replace(checkpoint, config=replace(checkpoint.config, position=position))


def _with_published(
    checkpoint: Checkpoint, published: Mapping[str, str], tokenizer: Path | None
) -> Checkpoint:
    """Return a trained model with the texts that its source was published by.

    The id of a pad token that only ends texts is left out: transformers would give it no gradient.

    Args:
        checkpoint: the model, without an adapter.
        published: texts of the model that the training continued; empty: there is none.
        tokenizer: folder of its tokenizer; None: it is not there.
    """
    pads = {key: value for key, value in checkpoint.token_ids.items() if key == "pad_token_id"}
    if tokenizer is not None and PublishedMetadata.find(tokenizer).pad_by_eos:
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "pad_token_id": None})
    checkpoint = continue_published(checkpoint, published) if published else checkpoint
    if checkpoint.config.architecture == "decoder" and checkpoint.config.heads.keys() != {"lm"}:
        # classes with heads of rows read the state before the first pad
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, **pads})
    return checkpoint


def without_off_ramps(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model without the classifiers at which rows leave early, which no class of transformers has."""
    config = checkpoint.config
    trained = {
        name: head
        for name, head in config.heads.items()
        if isinstance(head, ExitHeadOptions) and head.exits
    }
    if not trained:
        return checkpoint
    heads = config.heads | {name: replace(head, exits=None) for name, head in trained.items()}
    tensors = {
        name: tensor for name, tensor in checkpoint.tensors.items() if ".off_ramps." not in name
    }
    note = f"without the off-ramps of {', '.join(trained)}: these weights let no row leave early"
    return replace(
        checkpoint,
        config=replace(config, heads=heads),
        tensors=tensors,
        notes=(*checkpoint.notes, note),
    )


# -- plans before a training
# ------------------------------------------------------------------------------------------


def plan_of_run(config: TrainConfig, datasets: Datasets) -> ExportPlan:
    """Return what `export-model` will write of a run that starts."""
    first = datasets.phases[0].sources[0]
    manifest = first.manifest
    source = config.model.init_from
    assert manifest.objective is not None, "a start refuses a set without an objective"
    recorded = (describe_set(first.shards.path, first),)
    try:
        tokenizer = find_tokenizer(first.shards.path, manifest.tokenizer.fingerprint)
    except ClozelineError:  # the sets came without it
        tokenizer = None
    ids = token_ids(manifest.tokenizer, manifest.objective)
    try:
        # a resumed run has its own copy: its source may be gone
        published = find_published(config.output)
        if not published and source is not None:
            published = find_published(source.expanduser())
        checkpoint = model_without_weights(config.model, manifest.tokenizer.vocab_size, ids)
        checkpoint = _with_published(with_row_length(checkpoint, recorded), published, tokenizer)
        return plan_export(checkpoint, tokenizer=tokenizer, recorded=recorded)
    except ClozelineError as error:  # it says what an export would say, and stops no training
        return ExportPlan(ExportRequest(), (PlannedModel("", "", refusal=str(error)),), TextForm())


def plan_of_model(model: ModelConfig, special_ids: Mapping[str, int]) -> ExportPlan:
    """Return what an export will write of a model whose tokenizer will have these special ids."""
    ids = {f"{name}_token_id": number for name, number in special_ids.items()}
    return plan_export(model_without_weights(model, max(special_ids.values()) + 1, ids))
