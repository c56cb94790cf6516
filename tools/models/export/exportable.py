"""Open a model for export, from a training run or a folder, with the metadata for its model card."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.hub import origin_of
from clozeline.model.adaptation import merge_adapter
from clozeline.model.adapters import Adapter
from clozeline.model.adaptive_computation.token_rules import RuleRecord
from clozeline.model.build import Model
from clozeline.model.checkpoints import (
    MODEL,
    Checkpoint,
    build_checkpoint,
    continue_published,
    find_imported_tokenizer,
    find_published,
    map_for,
    read_checkpoint,
)
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.tasks.task_rows import FRAMES
from clozeline.pipeline.tokenize.published.exporting import END, Frame
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.tools.runs.data.run_sets import read_recorded_sets
from clozeline.train.checkpoint.format import Index, steps_in
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.checkpoint.state import read_state
from clozeline.train.data.sets.recorded_sets import RecordedSet, tokenizer_of_run
from clozeline.train.startup.merged_weights import read_all_weights
from clozeline.train.startup.run_directory import read_config

_MASKED_INPUT: Final = ("mass", "masked_encoder_decoder")
"""Objectives of encoder-decoders whose inputs are those of BERT."""


@dataclass(frozen=True)
class Exportable:
    """A model, and metadata of its training if it was trained here."""

    checkpoint: Checkpoint
    facts: dict[str, str]
    """rows of the model card"""
    languages: tuple[str, ...] = ()
    tokenizer: Path | None = None
    """its tokenizer's folder, where there is one"""
    frame: Frame | None = None
    """special tokens around the texts of its training rows; None: those of its family"""
    rows: Path | None = None
    """its first training set"""
    token_rule: RuleRecord = field(default_factory=dict)
    """rule by which a run drops tokens, which no folder of transformers holds; empty: none"""


@dataclass(frozen=True)
class Adapted:
    """An adapter that a run has trained, and its base model."""

    base: Checkpoint
    """base model with the heads of the run"""
    adapter: Adapter
    trained: list[str]
    """parameters of the heads that were trained with it"""
    original: Checkpoint
    """base model with its own heads"""
    source: Path | None
    """the model that the run was initialized from: a run, or a folder; None: the adapter was imported"""
    step: int


def open_exportable(source: Path, step: int | None = None, *, quantized: bool = False) -> Exportable:
    """Read a run (its fp32 master weights), an imported model, or a transformers folder.

    `step` None: the newest complete checkpoint; `quantized`: as in `read_checkpoint`.
    """
    if not steps_in(source / "checkpoints") and step is None:
        merged = _merge_imported(read_checkpoint(source, quantized=quantized))
        checkpoint = replace(merged, published=find_published(source))
        facts = {"model type": str(checkpoint.model_type), "imported from": origin_of(source)}
        return Exportable(checkpoint, facts, (), find_imported_tokenizer(source))
    directory, index = find_checkpoint(source, step)
    state = read_state(index)
    config = read_config(source, state)
    trained_on = read_recorded_sets(source, config.data, None)[0]
    model_config = _extend_rope_range(config.model, trained_on)
    rows = trained_on.tokenizer.vocab_size
    if model_config.adapter is None:
        weights = read_weights(directory, index)
    else:
        model = _load_with_adapter(model_config, rows, directory, index)
        for name in model.adapters:
            merge_adapter(model, name)
        weights = _base_weights(model)
    checkpoint = Checkpoint(replace(model_config, adapter=None), rows, weights, _token_ids(trained_on), None, ())
    facts = {
        "objective": trained_on.objective.label,
        "heads": ", ".join(model_config.heads),
        "steps": f"{index.state['step']:,}",
        "tokens seen": f"{index.state.get('tokens', 0):,}",
        "training set": trained_on.name,
        "training set's digest": trained_on.checksum,
        "tokenizer's fingerprint": trained_on.tokenizer.fingerprint,
    }
    if config.model.init_from is not None:
        facts["initial weights"] = origin_of(config.model.init_from)
    if (loss := index.state.get("heldout_loss")) is not None:
        facts["held-out loss"] = f"{loss:.4f}"
    if languages := trained_on.objective.options.get("language_tokens"):
        facts["decoder_start_token_id"] = f"of the output's language: {', '.join(languages.values())}"
    if state.token_rule:
        facts["token pruning"] = f"{state.token_rule}, by clozeline alone: these weights keep all tokens"
    tokenizer = None
    with suppress(ConfigurationError):  # the set may have been copied without its tokenizer
        tokenizer = tokenizer_of_run(source, trained_on)
    if tokenizer is not None and Published.find(tokenizer).pad_by_eos:  # as a pad, the end token would have no gradient
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "pad_token_id": None})
    if published := find_published(source):
        checkpoint = continue_published(checkpoint, published)
    return Exportable(
        checkpoint,
        facts,
        trained_on.languages,
        tokenizer,
        _frame_of(trained_on),
        Path(trained_on.path),
        state.token_rule,
    )


def _frame_of(trained_on: RecordedSet) -> Frame | None:
    """Return the special tokens around texts; a decoder writes the last ones itself."""
    objective, options = trained_on.objective, trained_on.objective.options
    if (name := options.get("frame")) is not None:
        frame = Frame(FRAMES[name].head, FRAMES[name].between, FRAMES[name].tail)
    elif objective.architecture == "decoder":
        frame = Frame(("bos",) if options.get("add_bos") else ())
    elif objective.architecture == "encoder" or objective.name in _MASKED_INPUT:
        return None
    else:
        head = options.get("source_head", "none")
        frame = END._replace(head=() if head == "none" else (head,))
    return frame._replace(tail=()) if objective.architecture == "decoder" else frame


def open_adapted(run: Path, step: int | None = None) -> Adapted:
    """Read a run that trained an adapter, or a folder that `import-adapter` wrote, and its base model."""
    if not steps_in(run / "checkpoints") and step is None and (run / MODEL).is_file():
        return _read_imported_adapter(run)
    directory, index = find_checkpoint(run, step)
    config = read_config(run, read_state(index))
    if config.model.adapter is None or config.model.init_from is None:
        raise ConfigurationError(f"{run}: trained no adapter: export the model with clozeline export-model")
    trained_on = read_recorded_sets(run, config.data, None)[0]
    model = _load_with_adapter(
        _extend_rope_range(config.model, trained_on), trained_on.tokenizer.vocab_size, directory, index
    )
    base_config, token_ids = replace(model.config, adapter=None), _token_ids(trained_on)
    base = Checkpoint(base_config, model.vocab_size, _base_weights(model), token_ids, None, ())
    trained = [name for name in index.parameters if not name.startswith("adapters.")]
    (adapter,) = model.adapters.values()
    source = config.model.init_from.expanduser()
    return Adapted(base, adapter, trained, open_exportable(source).checkpoint, source, int(index.state["step"]))


def _read_imported_adapter(folder: Path) -> Adapted:
    checkpoint = read_checkpoint(folder)
    if checkpoint.config.adapter is None:
        raise ConfigurationError(f"{folder}: holds no adapter: export the model with clozeline export-model")
    (adapter,) = build_checkpoint(checkpoint).adapters.values()
    base = replace(checkpoint, config=replace(checkpoint.config, adapter=None), tensors=_without_adapter(checkpoint))
    original = base
    if checkpoint.trained:  # the base came without this head
        key_map = map_for(base.config, base.token_ids, base.model_type)
        heads = {name: HeadConfig() for name in key_map.heads}
        original = replace(base, config=replace(base.config, heads=heads))
    return Adapted(base, adapter, list(checkpoint.trained), original, None, 0)


def _merge_imported(checkpoint: Checkpoint) -> Checkpoint:
    """Return a model with its imported adapter merged into the weights."""
    if checkpoint.config.adapter is None:
        return checkpoint
    model = build_checkpoint(checkpoint)
    merge_adapter(model, checkpoint.config.adapter.name)
    config = replace(checkpoint.config, adapter=None)
    return replace(checkpoint, config=config, tensors=_base_weights(model), trained=())


def _without_adapter(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith("adapters.")}


def _load_with_adapter(config: ModelConfig, vocab_size: int, directory: Path, index: Index) -> Model:
    model = Model(config, vocab_size)
    ours = dict(model.named_parameters())
    weights = read_all_weights(config, directory, index, {name: parameter.shape for name, parameter in ours.items()})
    with torch.no_grad():
        for name, parameter in ours.items():
            parameter.copy_(weights[name])
    return model.eval()


def _base_weights(model: Model) -> dict[str, Tensor]:
    return {name: own.detach() for name, own in model.named_parameters() if not name.startswith("adapters.")}


def _extend_rope_range(config: ModelConfig, trained_on: RecordedSet) -> ModelConfig:
    """Return the configuration; without a position table, `maximum` records the longest training rows."""
    if config.position.kind != "rope":
        return config
    length = max(config.position.maximum, trained_on.max_length)
    return replace(config, position=replace(config.position, maximum=length))


def _token_ids(trained_on: RecordedSet) -> dict[str, int]:
    """Return `pad_token_id` and similar keys; where each row has a start of its own, callers of `generate` give it."""
    ids = {f"{name}_token_id": number for name, number in trained_on.tokenizer.special_ids.items()}
    start = trained_on.objective.frame.decoder_start
    return ids | {"decoder_start_token_id": start} if isinstance(start, int) else ids
