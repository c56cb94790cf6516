"""Pseudo-log-likelihoods: each token is predicted from a copy of the row in which it is masked."""

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
    group_by_length,
    head_of,
    log_probabilities,
)

_UNKNOWN = frozenset({"rank", "prediction_order"})
"""Tensors of families that predict in an order (arXiv 1906.08237), which a masked row does not have."""


class _Copy(NamedTuple):
    """A masked row, the position at which a token is predicted, and the token."""

    ids: list[int]
    position: int
    token: int


def positions_to_mask(positions: Sequence[int], words: Sequence[int] | None) -> list[list[int]]:
    """Return the positions that are masked while each of `positions` is predicted.

    Args:
        positions: of a row, ascending.
        words: word index of each position; None: each position is masked alone (arXiv 1910.14659). Otherwise the later
            positions of its word are masked as well, so that a word of several pieces does not give itself away
            (within_word_l2r, arXiv 2305.10588).

    Example:
        >>> positions_to_mask([1, 2, 3, 4], [0, 1, 1, 1])
        [[1], [2, 3, 4], [3, 4], [4]]
    """
    if words is None:
        return [[position] for position in positions]
    return [
        [other for other, of in zip(positions, words, strict=True) if of == word and other >= position]
        for position, word in zip(positions, words, strict=True)
    ]


def pseudo_log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    mask_id: int,
    *,
    words: Sequence[Sequence[int]] | None = None,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of the token at each of `positions`, fp64 [positions] per row.

    Args:
        model: in evaluation mode, with a masked LM head.
        rows: token ids with their special tokens.
        positions: positions of each row that are scored, ascending, without special tokens.
        mask_id: id of [MASK].
        words: word index of each position; None: positions are masked one by one. See `positions_to_mask`.
        previous: read the prediction of position i at i - 1, for models trained that way (masked next-token prediction,
            arXiv 2410.24159).
        tokens: positions of a batch; this changes only the rounding.

    Raises:
        ConfigurationError: the model reads more than one row, has no masked LM head, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    of_words: Sequence[Sequence[int] | None] = words or [None] * len(rows)
    masked = [positions_to_mask(scored, of) for scored, of in zip(positions, of_words, strict=True)]
    return log_likelihoods_under_masks(model, rows, positions, masked, mask_id, previous=previous, tokens=tokens)


def log_likelihoods_under_masks(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    masked: Sequence[Sequence[Sequence[int]]],
    mask_id: int,
    *,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return what `pseudo_log_likelihoods` does, with other positions masked for each prediction.

    `masked` holds, for each scored position, the positions that are masked while it is predicted, itself included.
    """
    named = _mlm_head(model)
    copies = [
        _Copy([mask_id if at in covered else token for at, token in enumerate(row)], position, row[position])
        for row, scored, of in zip(rows, positions, masked, strict=True)
        for position, covered in zip(scored, of, strict=True)
    ]
    results = torch.zeros(len(copies), dtype=torch.float64)
    read = [copy.position - previous for copy in copies]
    for batch, states in _states(model, named, [copy.ids for copy in copies], read, tokens):
        targets = torch.tensor([copies[index].token for index in batch], device=states.device)
        with torch.no_grad():
            results[batch] = log_probabilities(named[1], states, targets, model.vocab_size)
    return list(torch.split(results, [len(scored) for scored in positions]))


def candidate_scores(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[int],
    candidates: Sequence[int],
    *,
    tokens: int = TOKENS,
) -> Tensor:
    """Return the score of each candidate at one position of each row, fp32 [rows, candidates].

    Arguments and errors are those of `pseudo_log_likelihoods`; the rows are masked already.
    """
    named = _mlm_head(model)
    results = torch.zeros((len(rows), len(candidates)))
    for batch, states in _states(model, named, rows, positions, tokens):
        with torch.no_grad():
            results[batch] = named[1].logits(states).float()[:, list(candidates)].cpu()
    return results


def logits_at_masks(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    *,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the logits at several positions of each row, fp32 [positions, vocabulary] per row.

    Arguments and errors are those of `pseudo_log_likelihoods`; the rows are masked already.
    """
    named = _mlm_head(model)
    results = [torch.empty(0)] * len(rows)
    for batch, hidden in _hidden_states(model, named, rows, tokens):
        for states, index in zip(hidden, batch, strict=True):
            with torch.no_grad():
                logits = named[1].logits(states[[position - previous for position in positions[index]]])
            results[index] = logits[:, : model.vocab_size].float().cpu()
    return results


def _mlm_head(model: Model) -> tuple[str, Head]:
    """Return the name of the masked LM head, and the head."""
    family = model.family
    if family.architecture != "encoder" or (family.needs | family.optional) & _UNKNOWN:
        raise ConfigurationError(f"masked scores need an encoder of entire rows, got the family {model.config.family}")
    return head_of(model, "masked_lm", "masked scores")


def _states(
    model: Model, named: tuple[str, Head], rows: Sequence[Sequence[int]], positions: Sequence[int], tokens: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of rows of similar lengths, with the state [n, dim] at the position of each."""
    for batch, hidden in _hidden_states(model, named, rows, tokens):
        at = torch.tensor([positions[index] for index in batch], device=hidden.device)
        yield batch, hidden[torch.arange(len(batch), device=hidden.device), at]


def _hidden_states(
    model: Model, named: tuple[str, Head], rows: Sequence[Sequence[int]], tokens: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of rows of similar lengths, with their states [n, length, dim], padded on the right."""
    name, head = named
    check_lengths(model, rows)
    for batch in group_by_length([len(row) for row in rows], tokens):
        tensors = batch_tensors([rows[index] for index in batch], model.family.device)
        with torch.no_grad():
            yield batch, model.family.views(tensors, {name: head})[name].hidden
