"""Pseudo-log-likelihoods: predict each token from a copy of the row in which it is masked.

Families that predict in a given order (XLNet) read the row itself.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.heads import Head
from clozeline.model.scoring.batches import (
    TOKENS,
    batch_tensors,
    check_lengths,
    find_head,
    group_by_length,
    has_prediction_order,
    log_probabilities,
)

_MAX_COPIES: Final = 4096
"""Maximum number of masked rows in memory at a time"""


class _Copy(NamedTuple):
    """A masked row, the position at which a token is predicted, and the token."""

    ids: list[int]
    position: int
    token: int


def positions_to_mask(positions: Sequence[int], words: Sequence[int] | None) -> list[list[int]]:
    """Return the positions that are masked while each of `positions` is predicted.

    Args:
        positions: positions of a row, ascending.
        words: word index of each position. The later positions of the predicted position's word are
            masked as well, so that the pieces of a word do not reveal each other (within_word_l2r,
            arXiv 2305.10588). None: each position is masked alone (arXiv 1910.14659).

    Example:
        >>> positions_to_mask([1, 2, 3, 4], [0, 1, 1, 1])
        [[1], [2, 3, 4], [3, 4], [4]]
    """
    if words is None:
        return [[position] for position in positions]
    indexed = list(zip(positions, words, strict=True))
    masked = []
    for position, word in indexed:
        masked.append([other for other, index in indexed if index == word and other >= position])
    return masked


def pseudo_log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    mask_id: int,
    *,
    words: Sequence[Sequence[int]] | None = None,
    masked: Sequence[Sequence[Sequence[int]]] | None = None,
    previous: bool = False,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of the token at each position, fp64 [positions] per row.

    Args:
        model: in evaluation mode, with a masked LM head.
        rows: token ids with their special tokens.
        positions: positions of each row that are scored, ascending, without special tokens.
        mask_id: id of [MASK].
        words: word index of each position; None: positions are masked one by one. See
            `positions_to_mask`.
        masked: for each scored position, the positions that are masked while it is predicted,
            including the scored position; None: according to `words`.
        previous: predict position i from the state at i - 1, for models trained that way (masked
            next-token prediction, arXiv 2410.24159).
        tokens: maximum number of positions of a batch, which changes only the rounding.

    Raises:
        ConfigurationError: the model reads more than one row, has no masked LM head, or is in
            training mode.
        BatchError: a row is longer than the position table.
    """
    words_of_rows: Sequence[Sequence[int] | None] = words or [None] * len(rows)

    if masked is None:
        masked = [
            positions_to_mask(scored, row_words)
            for scored, row_words in zip(positions, words_of_rows, strict=True)
        ]

    copies = (
        _mask_copy(row, position, hidden, mask_id)
        for row, scored, row_masks in zip(rows, positions, masked, strict=True)
        for position, hidden in zip(scored, row_masks, strict=True)
    )

    results = _score_copies(model, copies, previous=previous, tokens=tokens)
    return list(torch.split(results, [len(scored) for scored in positions]))


def window_around(position: int, count: int, length: int) -> tuple[int, int]:
    """Return start and end of a window of at most `length` of `count` tokens around `position`.

    At the edges of a document the window stays inside, so that each token has as much context as
    possible.

    Example:
        >>> [window_around(position, 6, 3) for position in range(6)]
        [(0, 3), (0, 3), (1, 4), (2, 5), (3, 6), (3, 6)]
    """
    start = max(0, min(position - length // 2, count - length))
    return start, min(start + length, count)


def pseudo_log_likelihoods_in_windows(
    model: Model,
    documents: Sequence[Sequence[int]],
    length: int,
    special_ids: tuple[int, int, int],
    *,
    words: Sequence[Sequence[int]] | None = None,
    previous: bool = False,
) -> list[Tensor]:
    """Return `pseudo_log_likelihoods` of all tokens of documents of any length.

    fp64 [tokens] per document.

    Each token is read in a separate row, so its window can have it in the middle.

    Args:
        model: in evaluation mode, with a masked LM head.
        documents: token ids without special tokens.
        length: maximum number of tokens of a window, without the two special tokens around it.
        special_ids: ids of [CLS], [SEP] and [MASK].
        words: word index of each token of each document, or None; see `positions_to_mask`.
        previous: see `pseudo_log_likelihoods`.
    """
    cls, sep, mask_id = special_ids
    words_of_documents: Sequence[Sequence[int] | None] = words or [None] * len(documents)

    def copies() -> Iterator[_Copy]:
        for ids, word_ids in zip(documents, words_of_documents, strict=True):
            for position in range(len(ids)):
                start, end = window_around(position, len(ids), length)
                hidden = [position]
                if word_ids is not None:
                    word = word_ids[position]
                    hidden = [other for other in range(position, end) if word_ids[other] == word]
                # [CLS] shifts each position of the window by one
                row = [cls, *ids[start:end], sep]
                hidden_in_row = [other - start + 1 for other in hidden]
                yield _mask_copy(row, position - start + 1, hidden_in_row, mask_id)

    results = _score_copies(model, copies(), previous=previous)
    return list(torch.split(results, [len(ids) for ids in documents]))


def _mask_copy(row: Sequence[int], position: int, hidden: Sequence[int], mask_id: int) -> _Copy:
    masked = list(row)
    for other in hidden:
        masked[other] = mask_id
    return _Copy(masked, position, row[position])


def _score_copies(
    model: Model, copies: Iterator[_Copy], *, previous: bool, tokens: int = TOKENS
) -> Tensor:
    """Return the log-probability of the predicted token of each copy, fp64 [copies]."""
    named_head = _find_masked_lm_head(model)
    parts = [torch.zeros(0, dtype=torch.float64)]
    # few copies are in memory at a time
    while chunk := [*islice(copies, _MAX_COPIES)]:
        scores = torch.zeros(len(chunk), dtype=torch.float64)
        rows = [copy.ids for copy in chunk]
        positions = [copy.position - previous for copy in chunk]
        for batch, states in _states_at_positions(model, named_head, rows, positions, tokens):
            targets = torch.tensor([chunk[index].token for index in batch], device=states.device)
            with torch.no_grad():
                scores[batch] = log_probabilities(named_head[1], states, targets, model.vocab_size)
        parts.append(scores)

    return torch.cat(parts)


def permuted_log_likelihoods(model: Model, row: Sequence[int], order: Sequence[int]) -> Tensor:
    """Return the natural log-probability of the token at each position of `order`, fp64 [order].

    A token is scored given the positions before its own in the order, and all positions that the
    order does not name (XLNet, arXiv 1906.08237).

    Args:
        model: in evaluation mode, of a family for which `has_prediction_order`.
        row: token ids with their special tokens.
        order: distinct positions of the row, in the order of prediction.

    Raises:
        ConfigurationError: the model has no masked LM head, or is in training mode.
    """
    _, head = find_head(model, "masked_lm", "permuted scores")
    tensors = batch_tensors([row], model.family.device)
    ids = tensors["input_ids"]
    tensors["rank"] = torch.zeros_like(ids)
    tensors["rank"][0, order] = 1 + torch.arange(len(order), device=ids.device)
    with torch.no_grad():
        states = model.family(tensors)[0, order]
        return log_probabilities(head, states, ids[0, order], model.vocab_size)


def logits_at_masks(
    model: Model,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    *,
    previous: bool = False,
) -> list[Tensor]:
    """Return the logits at several positions of each row, fp32 [positions, vocabulary] per row.

    Arguments and errors are those of `pseudo_log_likelihoods`; the rows are already masked.
    """
    named_head = _find_masked_lm_head(model)
    results = [torch.empty(0)] * len(rows)
    for batch, hidden in _hidden_states(model, named_head, rows):
        for states, index in zip(hidden, batch, strict=True):
            with torch.no_grad():
                logits = named_head[1].logits(
                    states[[position - previous for position in positions[index]]]
                )
            results[index] = logits[:, : model.vocab_size].float().cpu()
    return results


def _find_masked_lm_head(model: Model) -> tuple[str, Head]:
    """Return the name of the masked LM head, and the head."""
    if model.family.architecture != "encoder" or has_prediction_order(model):
        raise ConfigurationError(
            f"masked scores need an encoder of entire rows, got the family {model.config.family}"
        )
    return find_head(model, "masked_lm", "masked scores")


def _states_at_positions(
    model: Model,
    named_head: tuple[str, Head],
    rows: Sequence[Sequence[int]],
    positions: Sequence[int],
    tokens: int,
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of rows of similar lengths, and the state [n, dim] at the position in each."""
    for batch, hidden in _hidden_states(model, named_head, rows, tokens):
        index = torch.tensor([positions[row] for row in batch], device=hidden.device)
        yield batch, hidden[torch.arange(len(batch), device=hidden.device), index]


def _hidden_states(
    model: Model,
    named_head: tuple[str, Head],
    rows: Sequence[Sequence[int]],
    tokens: int = TOKENS,
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of rows of similar lengths, and all states of these rows, [n, length, dim]."""
    name, head = named_head
    check_lengths(model, rows)
    for batch in group_by_length([len(row) for row in rows], tokens):
        tensors = batch_tensors([rows[index] for index in batch], model.family.device)
        with torch.no_grad():
            yield batch, model.family.views(tensors, {name: head})[name].hidden
