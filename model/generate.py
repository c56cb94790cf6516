"""Continuation of prompts, token by token, by a decoder or an encoder-decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from model.build import Model
from model.cache import Cache
from model.config import STRICT
from model.errors import BatchError, ConfigurationError
from model.heads import Head
from model.sampling import draw, probabilities, uniform
from model.settling import settle

__all__ = ["Continuation", "Decoding", "generate"]

Stop: TypeAlias = Literal["end", "max_tokens", "positions"]
"""End of a continuation: an end token came, `max_tokens` are there, or the position table has no place for more."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Decoding:
    """The choice of tokens, and the end of a continuation."""

    max_tokens: Annotated[int, Field(ge=1, le=2**20)] = 64
    """New tokens of a row at most, an end token included."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """Divisor of the scores before a token is drawn; 0 = greedy: the most probable token, nothing is drawn."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Draw among this many most probable tokens (arXiv 1805.04833); null = all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Draw among the fewest most probable tokens with this mass together (arXiv 1904.09751); null = all."""
    seed: int = 0
    """Seed of the draws; each depends on the seed, the row and the step alone."""

    def __post_init__(self) -> None:
        """Check what concerns several options."""
        if not self.temperature and (self.top_k, self.top_p) != (None, None):
            raise ValueError("top_k and top_p choose among tokens that are drawn, and temperature 0 draws none: set it")


class Continuation(NamedTuple):
    """New tokens of one row, without the end token, and why there are no more."""

    ids: list[int]
    stop: Stop


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    end_ids: Collection[int] = (),
    decoder_start: int | None = None,
    prefix: bool = False,
    rows: Sequence[int] | None = None,
) -> list[Continuation]:
    """Continue each prompt; a row's continuation does not depend on the other rows.

    Args:
        model: in evaluation mode, with a head for next tokens.
        prompts: token ids, one list a row, of any lengths; of an encoder_decoder the inputs of the encoder.
        decoding: choice of tokens, and their number.
        end_ids: tokens that end a row.
        decoder_start: id that opens the rows of an encoder_decoder's decoder.
        prefix: whether the tokens of a prompt read each other in both directions, as a decoder learns from prefixes.
        rows: number of each row in its draws, from 0; None: 0, 1, 2 ...

    Raises:
        ConfigurationError: the model cannot generate, is in training mode, or `decoder_start` does not fit it.
        BatchError: a prompt is empty, or longer than the position table.
    """
    if not prompts:
        return []
    head, side = _head(model), _side(model, decoder_start)
    tensors = _first_step(model, prompts, decoder_start, prefix)
    lengths = tensors[f"{side}lengths"]
    limit = model.config.position.limit
    growing = [_Row.of(decoding.max_tokens, limit, length) for length in lengths.tolist()]
    steps = max(row.room for row in growing)
    cache = Cache(tensors[f"{side}input_ids"].shape[1] + steps)
    first, last = torch.arange(len(growing), device=lengths.device), lengths - 1
    for step in range(steps):
        with torch.no_grad():
            scores = head.logits(model.family.decode(tensors, cache)[first, last])
        tokens = _choose(scores, decoding, rows or range(len(growing)), step)
        for row, token in zip(growing, tokens.tolist(), strict=True):
            row.add(token, end_ids)
        if all(row.stop for row in growing):
            break
        places, last = lengths + step, torch.zeros_like(last)
        if limit is not None:  # rows that have ended stay at the last place
            places = places.clamp(max=limit - 1)
        tensors = tensors | {f"{side}input_ids": tokens[:, None], f"{side}position_ids": places[:, None]}
    return [Continuation(row.ids, row.stop or row.full) for row in growing]


@dataclasses.dataclass
class _Row:
    """A row that grows until it has `room` new tokens, for the reason `full`, or an end token comes."""

    room: int
    full: Stop
    ids: list[int] = dataclasses.field(default_factory=list)
    stop: Stop | None = None

    @staticmethod
    def of(max_tokens: int, limit: int | None, length: int) -> _Row:
        """Return a row of `length` tokens; the last new one is not read, so that it needs no place in the table."""
        places = max_tokens if limit is None else limit - length + 1
        return _Row(places, "positions") if places < max_tokens else _Row(max_tokens, "max_tokens")

    def add(self, token: int, end_ids: Collection[int]) -> None:
        """Add a token, unless the row has ended before, or ends with it."""
        if self.stop is not None:
            return
        if token in end_ids:
            self.stop = "end"
            return
        self.ids.append(token)
        if len(self.ids) == self.room:
            self.stop = self.full


def _head(model: Model) -> Head:
    """Return the head of next tokens."""
    if model.training:
        raise ConfigurationError(
            "generation needs a model in evaluation mode, call eval() first: dropout draws at random"
        )
    heads = [head for head in model.heads.values() if head.target == "lm"]
    if not heads:
        raise ConfigurationError(f"generation needs a head that predicts next tokens, got {', '.join(model.heads)}")
    return heads[0]


def _side(model: Model, decoder_start: int | None) -> str:
    """Return what the names of the growing rows' tensors begin with."""
    paired = model.family.architecture == "encoder_decoder"
    if paired != (decoder_start is not None):
        expected = "an id, for its decoder" if paired else "None, for there is only one row"
        raise ConfigurationError(
            f"decoder_start: expected {expected} of the family '{model.config.family}', got {decoder_start}"
        )
    return "decoder_" if paired else ""


def _first_step(
    model: Model, prompts: Sequence[Sequence[int]], decoder_start: int | None, prefix: bool
) -> dict[str, Tensor]:
    """Return the batch that reads the prompts."""
    limit = model.config.position.limit
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise BatchError(f"prompt {number}: expected at least one token, got none")
        if limit is not None and len(prompt) > limit:
            raise BatchError(
                f"prompt {number}: {len(prompt)} tokens, the position table has room for {limit}; give a shorter one"
            )
    tensors = _padded(prompts, "")
    if decoder_start is not None:
        tensors = settle(tensors, limit) | _padded([[decoder_start]] * len(prompts), "decoder_")
    elif prefix:
        tensors["prefix_length"] = tensors["lengths"]
    device = model.family.tokens.weight.device
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _padded(prompts: Sequence[Sequence[int]], side: str) -> dict[str, Tensor]:
    """Return rows padded on the right; no token reads the pads, so that any id serves."""
    rows = [torch.tensor(list(prompt), dtype=torch.int64) for prompt in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {
        f"{side}input_ids": ids,
        f"{side}position_ids": torch.arange(ids.shape[1])[None],
        f"{side}lengths": torch.tensor([len(prompt) for prompt in prompts]),
    }


def _choose(scores: Tensor, decoding: Decoding, rows: Sequence[int], step: int) -> Tensor:
    """Return the next token of each row, [B]."""
    if not decoding.temperature:
        return scores.argmax(-1)
    distribution = probabilities(scores, decoding.temperature, decoding.top_k, decoding.top_p)
    return draw(distribution, [uniform(decoding.seed, row, step) for row in rows])
