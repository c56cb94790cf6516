"""Left-to-right log-likelihoods: of rows, complete or in windows, and of the answers of an encoder-decoder."""

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
    group_by_length,
    head_of,
    log_probabilities,
)


class Window(NamedTuple):
    """Tokens `first` to `end` - 1 of a row, of which those from `scored` on are scored in this window."""

    first: int
    scored: int
    end: int


def windows(tokens: int, length: int, stride: int) -> Iterator[Window]:
    """Yield windows of at most `length` tokens that together score each token but the first once.

    The first window scores all that it can; each later one starts `stride` tokens further and
    scores the last `stride`. With stride 1 every token has the longest context; with stride
    `length` windows do not overlap.

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
        first = first + stride
        scored = end


def log_likelihoods(
    model: Model, rows: Sequence[Sequence[int]], *, tokens: int = TOKENS
) -> list[Tensor]:
    """Return the natural log-probability of each token but the first, given those before it: fp64 [n - 1] per row.

    The sum of a row is minus its training loss, summed over labels. An encoder reads from left to
    right, as in the causal rows of its training (GPT-BERT, arXiv 2410.24159). A token after a
    prefix that several rows share is scored once, so that minimal pairs differ only in what
    follows.

    Args:
        model: in evaluation mode.
        rows: token ids, at least one each.
        tokens: positions of a batch; this changes only the rounding.

    Raises:
        ConfigurationError: the model reads pairs of rows, has no next-token head, or is in training
            mode.
        BatchError: a row is longer than the position table.
    """
    architecture = model.family.architecture
    if architecture == "encoder_decoder":
        raise ConfigurationError(
            "causal scores need a decoder, or an encoder that reads left to right, got both"
        )
    _, head = head_of(model, "lm" if architecture == "decoder" else "masked_lm", "causal scores")
    check_lengths(model, [row[:-1] for row in rows])
    # a token is scored where its prefix occurs first; rows without a new prefix are not read
    numbers, fresh = _number_prefixes(rows)
    scores = torch.zeros(sum(map(len, rows)), dtype=torch.float64)
    device = model.family.device
    readable = [number for number, row in enumerate(rows) if fresh[number] < len(row)]
    for group in group_by_length([len(rows[number]) - 1 for number in readable], tokens):
        batch = [readable[index] for index in group]
        targets = torch.tensor(
            [token for row in batch for token in rows[row][fresh[row] :]], device=device
        )
        with torch.no_grad():
            states = _states(
                model, [rows[row][:-1] for row in batch], [fresh[row] - 1 for row in batch], device
            )
            scored = log_probabilities(head, states, targets, model.vocab_size)
        scores[[number for row in batch for number in numbers[row][fresh[row] :]]] = scored
    return [scores[of_row[1:]] for of_row in numbers]


def _number_prefixes(rows: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[int]]:
    """Number the distinct prefixes of all rows; also return the first token of each row that ends a new prefix, from 1.

    Example:
        >>> _number_prefixes([[7, 8, 9], [7, 8, 5], [7, 8]])
        ([[0, 1, 2], [0, 1, 3], [0, 1]], [1, 2, 2])
    """
    known: dict[tuple[int, int], int] = {}
    numbers = []
    fresh = []
    for row in rows:
        before = len(known)
        at = -1
        numbers.append([at := known.setdefault((at, token), len(known)) for token in row])
        fresh.append(max(1, sum(number < before for number in numbers[-1])))
    return numbers, fresh


def log_likelihoods_in_windows(
    model: Model, rows: Sequence[Sequence[int]], length: int, stride: int
) -> list[Tensor]:
    """Return `log_likelihoods` of rows of any length: each token is scored in one window of its row."""
    positions = [[*windows(len(row), length, stride)] for row in rows]
    parts = [
        row[window.first : window.end]
        for row, of in zip(rows, positions, strict=True)
        for window in of
    ]
    scores = iter(log_likelihoods(model, parts))
    return [
        torch.cat(
            [next(scores)[window.scored - window.first - 1 :] for window in of]
            or [torch.zeros(0).double()]
        )
        for of in positions
    ]


def _states(
    model: Model, rows: Sequence[Sequence[int]], first: Sequence[int], device: torch.device
) -> Tensor:
    """Return the hidden states [n, dim] of the tokens from `first` on, which have read those before them in the row."""
    tensors = batch_tensors(rows, device)
    if model.family.architecture == "encoder":
        count = torch.zeros(len(rows), dtype=torch.int64, device=device)
        tensors |= {"attention": count + 1, "prefix_length": count}
    hidden: Tensor = model.family(tensors)
    positions = torch.arange(hidden.shape[1], device=device)
    late = positions >= torch.tensor(first, device=device)[:, None]
    return hidden[late & (positions < tensors["lengths"].to(device).reshape(-1, 1))]


def answer_log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    decoder_start: int,
    *,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of each token of an answer, given its row and the tokens before it.

    The sum is minus the training loss, summed over labels.

    Args:
        model: an encoder-decoder in evaluation mode.
        rows: token ids that the encoder reads, at least one each.
        answers: token ids of the decoder, at least one each, with the token that ends an answer.
        decoder_start: id that the decoder reads first.
        tokens: positions of a batch, both rows together; this changes only the rounding.

    Raises:
        ConfigurationError: the model is no encoder-decoder, has no next-token head, or is in
            training mode.
        BatchError: a row is longer than the position table.
    """
    if model.family.architecture != "encoder_decoder":
        raise ConfigurationError(
            f"scores of answers need an encoder-decoder, got the family {model.config.family}"
        )
    _, head = head_of(model, "lm", "scores of answers")
    read = [[decoder_start, *answer[:-1]] for answer in answers]
    check_lengths(model, [*rows, *read])
    results = [torch.zeros(0, dtype=torch.float64)] * len(rows)
    device = model.family.device
    for batch in group_by_length(
        [len(row) + len(answer) for row, answer in zip(rows, read, strict=True)], tokens
    ):
        tensors = batch_tensors([rows[row] for row in batch], device)
        decoder = batch_tensors([read[row] for row in batch], device)
        tensors |= {
            "decoder_input_ids": decoder["input_ids"],
            "decoder_position_ids": decoder["position_ids"],
        }
        targets = torch.tensor([token for row in batch for token in answers[row]], device=device)
        with torch.no_grad():
            hidden: Tensor = model.family(tensors)
            # states [n, dim] of the decoder's tokens, without padding
            inside = torch.arange(hidden.shape[1], device=device) < decoder["lengths"].to(
                device
            ).reshape(-1, 1)
            states = hidden[inside.expand(len(batch), -1)]
            scores = log_probabilities(head, states, targets, model.vocab_size)
        for row, row_scores in zip(
            batch, torch.split(scores, [len(answers[row]) for row in batch]), strict=True
        ):
            results[row] = row_scores
    return results
