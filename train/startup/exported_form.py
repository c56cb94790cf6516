"""The form in which a run is exported: known at its start, when it has no weights, and completed by them at its end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from clozeline.errors import ClozelineError
from clozeline.model.checkpoints import (
    Checkpoint,
    ExportPlan,
    continue_published,
    describe_plans,
    find_published,
    model_without_weights,
    plan_exports,
)
from clozeline.model.configuration.head import ExitOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.train.checkpoint.trained_model import token_ids
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import Datasets


def with_row_length(checkpoint: Checkpoint, longest: int) -> Checkpoint:
    """Return the model; without a position table, `position.maximum` records the longest training rows."""
    position = checkpoint.config.position
    if position.kind != "rope":
        return checkpoint
    position = replace(position, maximum=max(position.maximum, longest))
    return replace(checkpoint, config=replace(checkpoint.config, position=position))


def with_published(checkpoint: Checkpoint, published: Mapping[str, str], tokenizer: Path | None) -> Checkpoint:
    """Return a trained model with the texts that its source was published by.

    The id of a pad token that only ends texts is left out: transformers would give it no gradient.

    Args:
        checkpoint: the model, without an adapter.
        published: texts of the model that the training continued; empty: there is none.
        tokenizer: folder of its tokenizer; None: it is not there.
    """
    pads = {key: value for key, value in checkpoint.token_ids.items() if key == "pad_token_id"}
    if tokenizer is not None and Published.find(tokenizer).pad_by_eos:
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "pad_token_id": None})
    checkpoint = continue_published(checkpoint, published) if published else checkpoint
    if checkpoint.config.architecture == "decoder" and checkpoint.config.heads.keys() != {"lm"}:
        # classes with heads of rows read the state before the first pad
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, **pads})
    return checkpoint


def without_off_ramps(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model without the classifiers at which rows leave early, which no class of transformers has."""
    config = checkpoint.config
    trained = {name: head for name, head in config.heads.items() if isinstance(head, ExitOptions) and head.exits}
    if not trained:
        return checkpoint
    heads = config.heads | {name: replace(head, exits=None) for name, head in trained.items()}
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if ".off_ramps." not in name}
    note = f"without the off-ramps of {', '.join(trained)}: these weights let no row leave early"
    return replace(checkpoint, config=replace(config, heads=heads), tensors=tensors, notes=(*checkpoint.notes, note))


def plan_of_run(config: TrainConfig, datasets: Datasets) -> list[ExportPlan]:
    """Return what `export-model` will write of a run that starts."""
    first = datasets.phases[0].sources[0]
    manifest, source = first.manifest, config.model.init_from
    assert manifest.objective is not None, "a start refuses a set without an objective"
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
        checkpoint = with_published(with_row_length(checkpoint, manifest.max_length), published, tokenizer)
        return plan_exports(without_off_ramps(checkpoint))
    except ClozelineError as error:  # it says what an export would say, and stops no training
        return [ExportPlan("", "", str(error))]


def plan_lines(model: ModelConfig, special_ids: Mapping[str, int]) -> list[str]:
    """Return the lines that say as what a model can be exported whose tokenizer will have these special ids."""
    ids = {f"{name}_token_id": number for name, number in special_ids.items()}
    checkpoint = model_without_weights(model, max(special_ids.values()) + 1, ids)
    return describe_plans(plan_exports(checkpoint))


def export_lines(config: TrainConfig, datasets: Datasets) -> list[str]:
    """Return the lines of a start that say as what the run can be exported."""
    return describe_plans(plan_of_run(config, datasets))
