"""Settings of text generation: how tokens are chosen, and which are banned."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import Natural, Positive, config_class

Stop: TypeAlias = Literal["end", "string", "max_tokens", "positions"]
"""Reason why a continuation ends: an end token, a stop string, `max_tokens`, or the end of the
position table."""
LengthForm: TypeAlias = Literal["power", "gnmt"]


@config_class
class Decoding:
    """How tokens are chosen, and when a continuation ends."""

    mode: Literal["greedy", "sample", "beam", "unmask"] | None = None
    """greedy: the most probable token, the lowest id of equal ones; sample: a random one; beam: the
    best of `width` rows that grow together; unmask: masked LMs fill the masks of a row, in any
    order; null: sample if temperature, top_k or top_p is given, else greedy"""
    max_tokens: Annotated[int, Field(ge=1, le=2**20)] = 64
    """Maximum number of new tokens, including the end token. Unmask: number of masks appended to a
    text without masks."""
    min_tokens: Natural = 0
    """Minimum number of new tokens before an end token."""
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """Divides positive scores of tokens that are already in the row, and multiplies negative ones
    (arXiv 1909.05858); 1 = none. Beams multiply log-probabilities."""
    no_repeat_ngram: Natural = 0
    """Forbid repeated n-grams of this size, prompt included; 0 disables it."""
    temperature: Annotated[float, Field(gt=0)] | None = None
    """Sample: divisor of the scores; null = 1. Unmask: sample tokens at this temperature; null =
    take the most probable."""
    top_k: Positive | None = None
    """Sample: draw among this many most probable tokens (arXiv 1805.04833); null = all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample: draw among the fewest most probable tokens with this total mass (arXiv 1904.09751);
    null = all."""
    seed: Natural = 0
    """Sample: seed of the draws; each depends only on the seed, the row and the step."""
    width: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Beam: number of beams; null = 4. Unmask: number of fillings of a row to keep at each step;
    null = 1."""
    length_penalty: float | None = None
    """Beam: exponent a of the length n in the divisor of summed log-probabilities; 0 = no division;
    null = 1."""
    length_form: LengthForm = "power"
    """Beam: power: n ** a; gnmt: ((5 + n) / 6) ** a (arXiv 1609.08144)."""
    steps: Positive | None = None
    """Unmask: number of model calls, each of which fills an equal share of the masks; null = one
    per mask."""
    order: Literal["certain", "random"] | None = None
    """Unmask: certain: fill the masks with the most probable tokens first (arXiv 2502.09992);
    random: in random order (arXiv 2406.07524); null = certain."""

    def __post_init__(self) -> None:
        if self.mode is None:
            object.__setattr__(self, "mode", "sample" if self._draws_tokens else "greedy")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens: expected at most max_tokens {self.max_tokens}, got {self.min_tokens}"
            )

        for name, modes in _MODES_OF.items():
            if getattr(self, name) != _DEFAULTS[name] and self.mode not in modes:
                remedy = f"set mode={' or mode='.join(modes)}, or remove the option"
                raise ValueError(f"{name}: mode {self.mode} does not read it; {remedy}")

        if self.mode == "unmask" and (self.width or 1) > 1:
            for name in ("temperature", "top_k", "top_p", "steps", "order"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: with several fillings (width), each step fills the most certain "
                        "mask, so this option has no effect; remove it, or set width to 1"
                    )

    @property
    def _draws_tokens(self) -> bool:
        return (self.temperature, self.top_k, self.top_p) != (None, None, None)

    @property
    def is_random(self) -> bool:
        """Whether tokens, or the order of masks, are sampled."""
        drawn = self._draws_tokens or self.order == "random"
        return self.mode == "sample" or (self.mode == "unmask" and drawn)


_BY_TOKEN = ("greedy", "sample", "beam")
_MODES_OF = {
    **dict.fromkeys(("temperature", "top_k", "top_p"), ("sample", "unmask")),
    "width": ("beam", "unmask"),
    "length_penalty": ("beam",),
    **dict.fromkeys(("steps", "order"), ("unmask",)),
    **dict.fromkeys(("min_tokens", "repetition_penalty", "no_repeat_ngram"), _BY_TOKEN),
}
"""Modes that read an option, for options that only some modes read."""
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Decoding)}


@dataclasses.dataclass(frozen=True)
class Continuation:
    """New tokens of one row, without the end token."""

    ids: list[int]
    """if a stop string ended the row, the tokens that complete it are included"""
    stop: Stop
    """reason why it ends"""
    score: float = dataclasses.field(default=float("nan"), compare=False)
    """Sum of the natural log-probabilities that the model gives to these tokens and the end token,
    before any change to the scores. Of a beam: of the penalized ones, divided by the length
    penalty; the end token counts as one of the n tokens."""
