"""Configuration of a head: the weight of its loss, and the keys that some heads read."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic.dataclasses import dataclass

from model.key_types import STRICT, Width, changed_keys

__all__ = ["HeadConfig", "HeadEntry"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class HeadConfig:
    """The part of a head in the loss of the model."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the head's mean loss."""
    normalise: Literal["label", "row"] = "label"
    """lm, masked_lm, span_boundary: unit that weighs alike in the head's mean: each label, or each row that has labels,
    whatever their number (arXiv 2410.24159)."""
    label_chunk: Width | None = None
    """lm, masked_lm: labels whose scores over the vocabulary are held at a time, for less memory and a third more
    arithmetic of the head; null = all."""
    transform: bool = True
    """masked_lm: a linear map, activation and norm before the projection; sentence: a linear map and tanh before it."""
    activation_penalty: Annotated[float, Field(ge=0)] = 2.0
    """regularised_lm: factor of the mean square of a state, added in training (arXiv 1708.02182)."""
    change_penalty: Annotated[float, Field(ge=0)] = 1.0
    """regularised_lm: factor of the mean square of its change to the next place, added in training."""
    max_span_tokens: Annotated[int, Field(ge=1, le=2**16)] = 30
    """span_boundary: tokens of a span with a loss; those after them are not predicted (arXiv 1907.10529)."""
    copy_weight: Annotated[float, Field(ge=0)] = 50.0
    """corrective: factor of the loss of copying, beside 1 for the loss of the tokens (arXiv 2102.08473)."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """similarity: cosines are divided by it; SimCSE 0.05 (arXiv 2104.08821), COCO-LM 1."""
    group_size: Annotated[int, Field(ge=2, le=2**20)] = 8
    """similarity: consecutive rows of the global batch whose texts are compared, a divisor of data.micro_batch."""
    negatives: Literal["other", "both"] = "other"
    """similarity: other, first views are compared with the second views of the group (SimCSE); both, each view is with
    all views of other rows (COCO-LM)."""


def _long_form(value: Any) -> Any:
    return {"weight": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _short_form(head: HeadConfig) -> Any:
    changed = changed_keys(head)
    return {"weight": head.weight} | changed if changed.keys() - {"weight"} else head.weight


HeadEntry: TypeAlias = Annotated[HeadConfig, BeforeValidator(_long_form), PlainSerializer(_short_form)]
"""A value of `model.heads`: the keys of a head, or its weight alone."""
