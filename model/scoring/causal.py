"""Log-likelihoods of rows, read from the left, whole or in windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.scoring.batches import (
    TOKENS,
    batch_tensors,
    check_lengths,
    head_of,
    like_lengths,
    log_probabilities,
)


class Window(NamedTuple):
    """Tokens `first` to `end` - 1 of a row, of which those from `scored` on are scored in this window."""

    first: int
    scored: int
    end: int


def windows(tokens: int, length: int, stride: int) -> Iterator[Window]:
    """Yield windows that read at most `length` tokens each, and together score each token but the first once.

    The first window scores all that it can; each later one begins `stride` tokens further and scores the last `stride`.
    With stride 1 every token has the whole context; with stride `length` windows do not overlap.

    Raises:
        ValueError: not 1 <= stride <= length.

    Example:
        >>> [tuple(window) for window in windows(8, length=4, stride=2)]
        [(0, 1, 5), (2, 5, 7), (4, 7, 8)]
    """
    if not 1 <= stride <= length:
        raise ValueError(f"stride: expected 1 to the window's length {length}, got {stride}")
    first, scored = 0, 1
    while scored < tokens:
        end = min(first + length + 1, tokens)
        yield Window(first, scored, end)
        first, scored = first + stride, end


def log_likelihoods(model: Model, rows: Sequence[Sequence[int]], *, tokens: int = TOKENS) -> list[Tensor]:
    """Return the natural log-probability of each token but the first, given those before it: fp64 [n - 1] for each row.

    The sum of a row is minus its loss in training, summed over labels. An encoder reads from left to right, as causal
    rows of its training do (GPT-BERT, arXiv 2410.24159). A token after a beginning that several rows have in common is
    scored once, so that minimal pairs differ in nothing but what follows.

    Args:
        model: in evaluation mode.
        rows: token ids, at least one each.
        tokens: places of a batch; it changes nothing but the rounding.

    Raises:
        ConfigurationError: the model reads pairs of rows, has no head of next tokens, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    architecture = model.family.architecture
    if architecture == "encoder_decoder":
        raise ConfigurationError("causal scores need a decoder, or an encoder that reads from the left, got both")
    _, head = head_of(model, "lm" if architecture == "decoder" else "masked_lm", "causal scores")
    check_lengths(model, [row[:-1] for row in rows])
    numbers, fresh = _beginnings(rows)
    scores = torch.zeros(sum(map(len, rows)), dtype=torch.float64)
    device = model.family.tokens.weight.device
    readable = [number for number, row in enumerate(rows) if fresh[number] < len(row)]
    for group in like_lengths([len(rows[number]) - 1 for number in readable], tokens):
        batch = [readable[one] for one in group]
        targets = torch.tensor([token for row in batch for token in rows[row][fresh[row] :]], device=device)
        with torch.no_grad():
            states = _states(model, [rows[row][:-1] for row in batch], [fresh[row] - 1 for row in batch], device)
            found = log_probabilities(head, states, targets, model.vocab_size)
        scores[[number for row in batch for number in numbers[row][fresh[row] :]]] = found
    return [scores[of_row[1:]] for of_row in numbers]


def _beginnings(rows: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[int]]:
    """Return a number for each beginning of each row, and the first token, but place 0, that ends one of no row before.

    Example:
        >>> _beginnings([[7, 8, 9], [7, 8, 5], [7, 8]])
        ([[0, 1, 2], [0, 1, 3], [0, 1]], [1, 2, 2])
    """
    known: dict[tuple[int, int], int] = {}
    numbers, fresh = [], []
    for row in rows:
        before, at = len(known), -1
        numbers.append([at := known.setdefault((at, token), len(known)) for token in row])
        fresh.append(max(1, sum(number < before for number in numbers[-1])))
    return numbers, fresh


def log_likelihoods_in_windows(
    model: Model, rows: Sequence[Sequence[int]], length: int, stride: int, *, tokens: int = TOKENS
) -> list[Tensor]:
    """Return what `log_likelihoods` does, of rows of any length: each token is scored in one window of its row.

    No row is context of another.

    Raises:
        ValueError: not 1 <= stride <= length.
    """
    places = [[*windows(len(row), length, stride)] for row in rows]
    parts = [row[window.first : window.end] for row, of in zip(rows, places, strict=True) for window in of]
    scores = iter(log_likelihoods(model, parts, tokens=tokens))
    return [
        torch.cat([next(scores)[window.scored - window.first - 1 :] for window in of] or [torch.zeros(0).double()])
        for of in places
    ]


def _states(model: Model, rows: Sequence[Sequence[int]], first: Sequence[int], device: torch.device) -> Tensor:
    """Return the hidden states [n, dim] of the tokens from `first` on, which have read those before them in the row."""
    tensors = batch_tensors(rows, device)
    if model.family.architecture == "encoder":
        count = torch.zeros(len(rows), dtype=torch.int64, device=device)
        tensors |= {"attention": count + 1, "prefix_length": count}
    hidden: Tensor = model.family(tensors)
    places = torch.arange(hidden.shape[1], device=device)
    wanted = places >= torch.tensor(first, device=device)[:, None]
    return hidden[wanted & (places < tensors["lengths"].to(device).reshape(-1, 1))]
