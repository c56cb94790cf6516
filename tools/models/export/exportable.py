"""Prepare an opened model for export: merge its adapter, and collect what its files must say of its training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.hub import origin_of
from clozeline.model.adapters import Adapter
from clozeline.model.build import Model, merge_adapter
from clozeline.model.checkpoints import Checkpoint, build_checkpoint, find_published, fit_to_class
from clozeline.model.registries import HEADS
from clozeline.pipeline.tasks.task_rows import FRAMES
from clozeline.pipeline.tasks.task_rows import Frame as TaskFrame
from clozeline.pipeline.tokenize.published.exporting import END, Blanks, Frame
from clozeline.tools.runs.inference.text_likelihoods import first_role
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.checkpoint import StepChoice
from clozeline.train.data.sets.recorded_sets import RecordedSet
from clozeline.train.startup.exported_form import with_published, with_row_length

_MASKED_INPUT: Final = ("mass", "masked_encoder_decoder")
"""Objectives of encoder-decoders whose inputs are those of BERT."""
_FRAMES: Final = {**FRAMES, "xlnet": TaskFrame("encoder", (), ("sep",), ("sep", "cls"), segments=True)}
"""Frames by the option `frame` of objectives: those of tasks, and `a [SEP] b [SEP] [CLS]` of permuted_lm."""


def exported_form(run: TrainedModel) -> Checkpoint:
    """Return the model as it is exported, an adapter merged, with the texts that its source was published by."""
    checkpoint = _with_row_length(run)
    if run.recorded:
        role, special_ids = role_before_texts(run.recorded[0]), run.recorded[0].tokenizer.special_ids
        start = None if role is None else special_ids.get(role)
        checkpoint = replace(checkpoint, token_ids={**checkpoint.token_ids, "bos_token_id": start})
    if checkpoint.config.adapter is not None:
        # a merge changes weights in place, and those of the run stay
        own = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
        model = build_checkpoint(replace(checkpoint, tensors=own))
        merge_adapter(model, checkpoint.config.adapter.name)
        config = replace(checkpoint.config, adapter=None)
        checkpoint = replace(checkpoint, config=config, tensors=_base_weights(model), trained=())
    published = find_published(run.folder)
    if run.config is None:
        return replace(checkpoint, published=published)
    return with_published(checkpoint, published, run.tokenizer_folder)


def card_rows(run: TrainedModel) -> dict[str, str]:
    """Return the rows of the model card."""
    if run.config is None or run.stored is None:
        return {"model type": str(run.checkpoint.model_type), "imported from": origin_of(run.folder)}
    trained_on, state = run.sets[0], run.stored.state
    rows = {
        "objective": trained_on.objective.label,
        "heads": ", ".join(run.checkpoint.config.heads),
        "steps": f"{state.step:,}",
        "tokens seen": f"{state.tokens:,}",
        "training set": trained_on.name,
        "training set's digest": trained_on.checksum,
        "tokenizer's fingerprint": trained_on.tokenizer.fingerprint,
    }
    if run.config.model.init_from is not None:
        rows["initial weights"] = origin_of(run.config.model.init_from)
    if state.heldout_loss is not None:
        rows["held-out loss"] = f"{state.heldout_loss:.4f}"
    if languages := trained_on.objective.options.get("language_tokens"):
        rows["decoder_start_token_id"] = f"of the output's language: {', '.join(languages.values())}"
    if state.token_rule:
        rows["token pruning"] = f"{state.token_rule}, by clozeline alone: these weights keep all tokens"
    return rows


def frame_of(trained_on: RecordedSet) -> Frame | None:
    """Return the special tokens around texts in training rows; None: those of the tokenizer.

    A decoder that generates texts writes the last ones itself.
    """
    objective, options = trained_on.objective, trained_on.objective.options
    if (name := options.get("frame")) is not None:
        rows = _FRAMES[name].without_pad(trained_on.tokenizer.special_ids)
        frame = Frame(rows.head, rows.between, rows.tail)
    elif objective.architecture == "decoder":
        frame = Frame(("bos",) if options.get("add_bos") else ())
    elif objective.architecture == "encoder" or objective.name in _MASKED_INPUT:
        return None
    else:
        head = options.get("source_head", "none")
        frame = END._replace(head=() if head == "none" else (head,))
    generates = objective.architecture == "decoder" and "lm" in objective.heads
    return frame._replace(tail=()) if generates else frame


def role_before_texts(trained_on: RecordedSet) -> str | None:
    """Return the role of the special token that stands before a text in training rows, which programs may put there.

    None: nothing stands there, or the model is an encoder, whose tokenizer itself writes what stands around texts.
    """
    objective, frame = trained_on.objective, frame_of(trained_on)
    if objective.architecture == "encoder":
        return None
    if frame is not None and frame.head:
        return frame.head[0]
    return first_role(objective) if objective.architecture == "decoder" and "frame" not in objective.options else None


def reads_task_rows(run: TrainedModel) -> bool:
    """Return whether the model was trained on rows of a task, which are cut at a length where predictions are, too."""
    return bool(run.recorded) and "frame" in run.recorded[0].objective.options


def blanks_of(run: TrainedModel) -> Blanks:
    """Return how the rows of a task have the blanks of a text; those of other training keep them."""
    heads = run.recorded[0].objective.heads if reads_task_rows(run) else ()
    if "tagging" in heads:
        return "single"
    return "stripped" if set(heads) & {"classification", "regression", "similarity"} else "kept"


def row_length(run: TrainedModel) -> int | None:
    """Return the tokens of a row, with special tokens, that the model reads: what its training rows were cut at.

    None: nothing was recorded, and positions have no limit.
    """
    limit = run.checkpoint.config.position.limit
    lengths = [
        int(recorded.objective.options.get("max_length", recorded.max_length))  # of several rows end to end: of each
        for recorded in run.recorded
    ]
    bounds = [*([max(lengths)] if lengths else []), *([] if limit is None else [limit])]
    return min(bounds, default=None)


@dataclass(frozen=True)
class Adapted:
    """An adapter that a run has trained, or that was imported, and its base model."""

    base: Checkpoint
    """base model with the heads of the run"""
    adapter: Adapter
    trained: tuple[str, ...]
    """parameters of the heads that were trained with it"""
    original: Checkpoint
    """base model with its own heads"""
    source: Path | None
    """the model that the run was initialized from: a run, or a folder; None: the adapter was imported"""
    step: int


def open_adapted(folder: Path, step: StepChoice = None) -> Adapted:
    """Open a run that trained an adapter, or a folder that `import-adapter` wrote, and its base model."""
    run = TrainedModel.open(folder, step, quantized=False)
    checkpoint = _with_row_length(run)
    if checkpoint.config.adapter is None:
        raise ConfigurationError(f"{folder}: holds no adapter: export the model with clozeline export-model")
    model = build_checkpoint(checkpoint)
    (adapter,) = model.adapters.values()
    config = replace(checkpoint.config, adapter=None)
    base = replace(checkpoint, config=config, tensors=_base_weights(model), trained=())
    original, source = base, None
    if run.config is not None and run.config.model.init_from is not None:
        source = run.config.model.init_from.expanduser()
        original = exported_form(TrainedModel.open(source, quantized=False))
    elif checkpoint.trained:  # the base came without this head
        _, key_map = fit_to_class(base, base.model_type, body_alone=True)
        heads = {name: HEADS.load_class(name).Options() for name in key_map.classes.heads}
        original = replace(base, config=replace(config, heads=heads))
    return Adapted(base, adapter, checkpoint.trained, original, source, run.step)


def _base_weights(model: Model) -> dict[str, Tensor]:
    return {name: own.detach() for name, own in model.named_parameters() if not name.startswith("adapters.")}


def _with_row_length(run: TrainedModel) -> Checkpoint:
    return run.checkpoint if run.config is None else with_row_length(run.checkpoint, run.sets[0].max_length)
