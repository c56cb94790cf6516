"""Tell as which class of transformers a model can be exported, before it has weights."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from clozeline.errors import ClozelineError
from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.model.checkpoints._conversion.export import export_checkpoint, split, with_heads
from clozeline.model.checkpoints._conversion.tensor_layouts import parameter_shapes
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import ADAPTERS


class ExportPlan(NamedTuple):
    """What `export-model` would write of a model, or of one of the models in it."""

    part: str
    """name of the model, such as generator; empty: there is one"""
    architecture: str
    """class of transformers; empty: none"""
    refusal: str = ""
    """the keys by which it has no class, and the values that would give it one"""
    others: Mapping[str, str] = {}
    """words for `export-model` under which it has a class, and this class"""


def model_without_weights(
    config: ModelConfig, vocab_size: int, token_ids: Mapping[str, Any], model_type: str | None = None
) -> Checkpoint:
    """Return a model whose tensors have names and shapes alone; a merged adapter leaves nothing of itself.

    Raises:
        ConfigurationError: the weights of the model cannot hold what its adapter computes.
    """
    if config.adapter is not None:
        ADAPTERS.load_class(config.adapter.name).check_merge()
        config = replace(config, adapter=None)
    shapes = parameter_shapes(config, vocab_size)
    tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    return Checkpoint(config, vocab_size, tensors, token_ids, model_type, ())


def plan_exports(checkpoint: Checkpoint) -> list[ExportPlan]:
    """Return a plan for each model in a checkpoint, which may have no weights.

    It is the export itself without the writing, so that the two agree.
    """
    return [_plan_part(name, part) for name, part in split(checkpoint).items()]


def _plan_part(name: str, part: Checkpoint) -> ExportPlan:
    try:
        return ExportPlan(name, _architecture(part))
    except ClozelineError as error:
        return ExportPlan(name, "", str(error), dict(_other_exports(part)))


def _other_exports(part: Checkpoint) -> Iterator[tuple[str, str]]:
    """Yield the words under which a model has a class, and the class: with one of its heads, or without them."""
    heads = part.config.heads if len(part.config.heads) > 1 else ()
    attempts = [(f"head={head}", with_heads(part, [head]), False) for head in heads]
    for words, model, body_alone in [*attempts, ("parts=encoder", part, True)]:
        try:
            yield words, _architecture(model, body_alone=body_alone)
        except ClozelineError:
            continue


def _architecture(part: Checkpoint, *, body_alone: bool = False) -> str:
    architecture: str = export_checkpoint(part, body_alone=body_alone).config["architectures"][0]
    return architecture


def describe_plans(plans: list[ExportPlan]) -> list[str]:
    """Return the lines that tell people of plans."""
    lines = []
    for plan in plans:
        named = f"the {plan.part} " if plan.part else ""
        if plan.architecture:
            lines.append(f"{named}as {plan.architecture} of transformers")
            continue
        lines.append(f"{named}not as it is: {plan.refusal}")
        lines += [f"  with {words} as {architecture}" for words, architecture in plan.others.items()]
    return [f"{'export' if number == 0 else '':11}{line}" for number, line in enumerate(lines)]
