"""Pseudo-log-likelihoods: each token is predicted from a copy of the row in which it is masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.heads import Head
from clozeline.model.scoring.batches import (
    TOKENS,
    batch_tensors,
    check_lengths,
    head_of,
    like_lengths,
    log_probabilities,
)

_UNKNOWN = frozenset({"rank", "prediction_order"})
"""Tensors of a family whose rows are predicted in an order (arXiv 1906.08237), which a masked row does not have."""


class _Copy(NamedTuple):
    """A masked row, the place at which a token is predicted, and the token."""

    ids: list[int]
    place: int
    token: int


def positions_to_mask(places: Sequence[int], words: Sequence[int] | None) -> list[list[int]]:
    """Return the places that are masked while each of `places` is predicted.

    Args:
        places: of a row, ascending.
        words: number of the word of each; None: each place is masked alone (arXiv 1910.14659). Otherwise the later
            places of its word are masked, too, so that a word of several pieces does not give itself away
            (within_word_l2r, arXiv 2305.10588).

    Example:
        >>> positions_to_mask([1, 2, 3, 4], [0, 1, 1, 1])
        [[1], [2, 3, 4], [3, 4], [4]]
    """
    if words is None:
        return [[place] for place in places]
    return [
        [other for other, of in zip(places, words, strict=True) if of == word and other >= place]
        for place, word in zip(places, words, strict=True)
    ]


def pseudo_log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    mask_id: int,
    *,
    words: Sequence[Sequence[int]] | None = None,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of the token at each of `places`, fp64 [places] for each row.

    Args:
        model: in evaluation mode, with a head of masked tokens.
        rows: token ids with their frame.
        places: places of each row that are scored, ascending; special tokens are not among them.
        mask_id: id of [MASK].
        words: number of the word of each place; None: places are masked one by one. See `positions_to_mask`.
        previous: read the prediction of place i at i - 1, as models do that were trained so (masked next-token
            prediction, arXiv 2410.24159).
        tokens: places of a batch; it changes nothing but the rounding.

    Raises:
        ConfigurationError: the model reads more than one row, has no head of masked tokens, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    of_words: Sequence[Sequence[int] | None] = words or [None] * len(rows)
    hidden = [positions_to_mask(scored, of) for scored, of in zip(places, of_words, strict=True)]
    return log_likelihoods_under_masks(model, rows, places, hidden, mask_id, previous=previous, tokens=tokens)


def log_likelihoods_under_masks(
    model: Model,
    rows: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    hidden: Sequence[Sequence[Sequence[int]]],
    mask_id: int,
    *,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of the token at each of `places`, fp64 [places] for each row.

    Args:
        model: in evaluation mode, with a head of masked tokens.
        rows: token ids with their frame.
        places: places of each row that are scored.
        hidden: for each of them, the places of the row that are masked while it is predicted, itself among them.
        mask_id: id of [MASK].
        previous: read the prediction of place i at i - 1.
        tokens: places of a batch; it changes nothing but the rounding.

    Raises:
        ConfigurationError: the model reads more than one row, has no head of masked tokens, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    named = _find_masked_head(model)
    copies = [
        _Copy([mask_id if at in masked else token for at, token in enumerate(row)], place, row[place])
        for row, scored, of in zip(rows, places, hidden, strict=True)
        for place, masked in zip(scored, of, strict=True)
    ]
    found = torch.zeros(len(copies), dtype=torch.float64)
    read = [copy.place - previous for copy in copies]
    for batch, states in _states(model, named, [copy.ids for copy in copies], read, tokens):
        wanted = torch.tensor([copies[one].token for one in batch], device=states.device)
        with torch.no_grad():
            found[batch] = log_probabilities(named[1], states, wanted, model.vocab_size)
    return list(torch.split(found, [len(scored) for scored in places]))


def candidate_scores(
    model: Model,
    rows: Sequence[Sequence[int]],
    places: Sequence[int],
    candidates: Sequence[int],
    *,
    tokens: int = TOKENS,
) -> Tensor:
    """Return the score of each candidate at one place of each row, fp32 [rows, candidates].

    Args:
        model: in evaluation mode, with a head of masked tokens.
        rows: token ids with their frame, masked already.
        places: place of each row that is predicted.
        candidates: ids of tokens.
        tokens: places of a batch; it changes nothing but the rounding.

    Raises:
        ConfigurationError: the model reads more than one row, has no head of masked tokens, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    named = _find_masked_head(model)
    found = torch.zeros((len(rows), len(candidates)))
    for batch, states in _states(model, named, rows, places, tokens):
        with torch.no_grad():
            found[batch] = named[1].logits(states).float()[:, list(candidates)].cpu()
    return found


def _find_masked_head(model: Model) -> tuple[str, Head]:
    """Return the name of the head of masked tokens, and the head."""
    family = model.family
    if family.architecture != "encoder" or (family.needs | family.optional) & _UNKNOWN:
        raise ConfigurationError(f"masked scores need an encoder of whole rows, got the family {model.config.family}")
    return head_of(model, "masked_lm", "masked scores")


def _states(
    model: Model, named: tuple[str, Head], rows: Sequence[Sequence[int]], places: Sequence[int], tokens: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield numbers of rows of like lengths, with the state [n, dim] at the place of each."""
    name, head = named
    check_lengths(model, rows)
    device = model.family.tokens.weight.device
    for batch in like_lengths([len(row) for row in rows], tokens):
        tensors = batch_tensors([rows[one] for one in batch], device)
        with torch.no_grad():
            read = model.family.views(tensors, {name: head})[name].hidden
            at = torch.tensor([places[one] for one in batch], device=device)
            yield batch, read[torch.arange(len(batch), device=device), at]
