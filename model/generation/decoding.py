"""Settings of text generation: how tokens are chosen, and which are banned."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class

Stop: TypeAlias = Literal["end", "string", "max_tokens", "positions"]
"""Reason why a continuation ends: an end token, a stop string, `max_tokens`, or the end of the position table."""
LengthForm: TypeAlias = Literal["power", "gnmt"]


@config_class
class Decoding:
    """The choice of tokens, and the end of a continuation."""

    mode: Literal["greedy", "sample", "beam"] = "greedy"
    """greedy: the most probable token, the lowest id of equal ones; sample: a random one; beam: the best of `width`
    rows that grow together"""
    max_tokens: Annotated[int, Field(ge=1, le=2**20)] = 64
    """Maximum number of new tokens, end token included."""
    min_tokens: Annotated[int, Field(ge=0)] = 0
    """Minimum number of new tokens before an end token."""
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """Divisor of the positive scores, and factor of the negative ones, of tokens that the row holds (arXiv 1909.05858);
    1 = none. Beams multiply log-probabilities."""
    no_repeat_ngram: Annotated[int, Field(ge=0)] = 0
    """Forbid repeated n-grams of this size, prompt included; 0 disables it."""
    temperature: Annotated[float, Field(gt=0)] | None = None
    """Sample: divisor of the scores; null = 1."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Sample: draw among this many most probable tokens (arXiv 1805.04833); null = all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample: draw among the fewest most probable tokens with this total mass (arXiv 1904.09751); null = all."""
    seed: int = 0
    """Sample: seed of the draws; each depends only on the seed, the row and the step."""
    width: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Beam: number of beams; null = 4."""
    length_penalty: float | None = None
    """Beam: exponent a of the length n by which the sum of log-probabilities is divided; 0 = the sum; null = 1."""
    length_form: LengthForm = "power"
    """Beam: power: n ** a; gnmt: ((5 + n) / 6) ** a (arXiv 1609.08144)."""

    def __post_init__(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens: expected at most max_tokens {self.max_tokens}, got {self.min_tokens}")
        for mode, names in _OPTIONS.items():
            present = [name for name in names if getattr(self, name) is not None]
            if present and self.mode != mode:
                raise ValueError(f"{present[0]}: mode {self.mode} does not read it; set mode={mode}, or leave it out")


_OPTIONS = {"sample": ("temperature", "top_k", "top_p"), "beam": ("width", "length_penalty")}
"""Options that belong to one mode."""


@dataclasses.dataclass(frozen=True)
class Continuation:
    """New tokens of one row, without the end token."""

    ids: list[int]
    """a row that ends by a stop string holds the tokens that complete it"""
    stop: Stop
    """reason why it ends"""
    score: float = dataclasses.field(default=float("nan"), compare=False)
    """Sum of the natural log-probabilities that the model gives to these tokens and the end token, before any change to
    the scores. Of a beam: of the penalized ones, divided by the length penalty; the end token counts as one of the n
    tokens."""
