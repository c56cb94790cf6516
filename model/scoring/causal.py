"""Left-to-right log-likelihoods of rows, rows in windows, and an encoder-decoder's answers."""

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
    find_head,
    group_by_length,
    log_probabilities,
)


class Window(NamedTuple):
    """Tokens `first` to `end` - 1 of a row; those from `scored` on are scored in this window."""

    first: int
    scored: int
    end: int


def split_windows(tokens: int, length: int, stride: int) -> Iterator[Window]:
    """Yield windows of at most `length` tokens that score each token but the first exactly once.

    The first window scores all its tokens; each later one starts `stride` tokens further and scores
    the last `stride`. With stride 1, every token has the longest context; with stride `length`,
    windows do not overlap.

    Raises:
        ValueError: the stride is not in 1 to `length`.

    Example:
        >>> [tuple(window) for window in split_windows(8, length=4, stride=2)]
        [(0, 1, 5), (2, 5, 7), (4, 7, 8)]
    """
    if not 1 <= stride <= length:
        raise ValueError(f"stride: expected 1 to {length}, the length of a window, got {stride}")
    first = 0
    scored = 1
    while scored < tokens:
        end = min(first + length + 1, tokens)
        yield Window(first, scored, end)
        first = first + stride
        scored = end


def log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    *,
    tokens: int = TOKENS,
    prefixes: Sequence[int] = (),
) -> list[Tensor]:
    """Return the natural log-probability of each token but the first, fp64 [n - 1] per row.

    A token is scored given the tokens before it. The sum of a row is minus its training loss,
    summed over labels. An encoder reads from left to right, as in the causal rows of its training
    (GPT-BERT, arXiv 2410.24159). If rows share a prefix, each of its tokens is scored once, so that
    the scores of a minimal pair differ only after the shared prefix.

    Args:
        model: in evaluation mode.
        rows: token ids, one or more each.
        tokens: maximum number of positions of a batch, which changes only the rounding.
        prefixes: number of tokens at the start of each row that a decoder reads in both directions
            (prefix LM, arXiv 1910.10683); they are not scored, and have the value 0.

    Raises:
        ConfigurationError: the model reads pairs of rows, has no next-token head, or is in training
            mode.
        BatchError: a row is longer than the position table.
    """
    architecture = model.family.architecture
    if architecture == "encoder_decoder":
        raise ConfigurationError(
            "causal scores need a decoder, or an encoder that reads left to right, got an "
            "encoder-decoder"
        )

    _, head = find_head(model, "lm" if architecture == "decoder" else "masked_lm", "causal scores")
    check_lengths(model, [row[:-1] for row in rows])

    # a token is scored where its prefix occurs first; rows without a new prefix are not read
    prefixes = prefixes or [0] * len(rows)
    numbers, first_new = _number_prefixes(rows, prefixes)
    scores = torch.zeros(sum(map(len, rows)), dtype=torch.float64)
    device = model.family.device
    readable = [number for number, row in enumerate(rows) if first_new[number] < len(row)]
    for group in group_by_length([len(rows[number]) - 1 for number in readable], tokens):
        batch = [readable[index] for index in group]
        targets = torch.tensor(
            [token for row in batch for token in rows[row][first_new[row] :]], device=device
        )

        with torch.no_grad():
            states = _states(
                model,
                [rows[row][:-1] for row in batch],
                [first_new[row] - 1 for row in batch],
                [prefixes[row] for row in batch],
                device,
            )
            scored = log_probabilities(head, states, targets, model.vocab_size)

        scores[[number for row in batch for number in numbers[row][first_new[row] :]]] = scored

    return [scores[row_numbers[1:]] for row_numbers in numbers]


def _number_prefixes(
    rows: Sequence[Sequence[int]], unscored: Sequence[int]
) -> tuple[list[list[int]], list[int]]:
    """Number the distinct prefixes of all rows.

    Also return the first token of each row, from 1, that ends a new prefix, and is not among the
    `unscored` tokens at its start. Rows with other numbers of them share no prefix.

    Example:
        >>> _number_prefixes([[7, 8, 9], [7, 8, 5], [7, 8]], [0, 0, 0])
        ([[0, 1, 2], [0, 1, 3], [0, 1]], [1, 2, 2])
    """
    prefix_numbers: dict[tuple[int, int], int] = {}
    numbers = []
    first_new = []
    for row, first in zip(rows, unscored, strict=True):
        known_count = len(prefix_numbers)
        prefix = -1 - first
        numbers.append(
            [
                prefix := prefix_numbers.setdefault((prefix, token), len(prefix_numbers))
                for token in row
            ]
        )
        first_new.append(max(1, first, sum(number < known_count for number in numbers[-1])))
    return numbers, first_new


def log_likelihoods_in_windows(
    model: Model, rows: Sequence[Sequence[int]], length: int, stride: int
) -> list[Tensor]:
    """Return `log_likelihoods` of rows of any length; exactly one window scores each token."""
    windows_of_rows = [[*split_windows(len(row), length, stride)] for row in rows]
    window_rows = [
        row[window.first : window.end]
        for row, windows in zip(rows, windows_of_rows, strict=True)
        for window in windows
    ]

    scores = iter(log_likelihoods(model, window_rows))
    return [
        torch.cat(
            [next(scores)[window.scored - window.first - 1 :] for window in windows]
            or [torch.zeros(0).double()]
        )
        for windows in windows_of_rows
    ]


def _states(
    model: Model,
    rows: Sequence[Sequence[int]],
    first: Sequence[int],
    prefixes: Sequence[int],
    device: torch.device,
) -> Tensor:
    """Return the states [n, dim] of the tokens of each row from its `first` position on."""
    tensors = batch_tensors(rows, device)
    if model.family.architecture == "encoder":
        count = torch.zeros(len(rows), dtype=torch.int64, device=device)
        tensors |= {"attention": count + 1, "prefix_length": count}
    elif any(prefixes):
        tensors["prefix_length"] = torch.tensor(prefixes, device=device)
    hidden: Tensor = model.family(tensors)
    positions = torch.arange(hidden.shape[1], device=device)
    is_scored = positions >= torch.tensor(first, device=device)[:, None]
    return hidden[is_scored & (positions < tensors["lengths"].to(device).reshape(-1, 1))]


def answer_log_likelihoods(
    model: Model,
    rows: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    decoder_start: int,
    *,
    tokens: int = TOKENS,
) -> list[Tensor]:
    """Return the natural log-probability of each token of an answer, given row and earlier tokens.

    The sum of an answer is minus its training loss, summed over labels.

    Args:
        model: an encoder-decoder in evaluation mode.
        rows: token ids that the encoder reads, one or more each.
        answers: token ids of the decoder, one or more each, with the token that ends an answer.
        decoder_start: id that the decoder reads first.
        tokens: maximum number of positions of a batch, over encoder and decoder, which changes only
            the rounding.

    Raises:
        ConfigurationError: the model is not an encoder-decoder, has no next-token head, or is in
            training mode.
        BatchError: a row is longer than the position table.
    """
    if model.family.architecture != "encoder_decoder":
        raise ConfigurationError(
            f"scores of answers need an encoder-decoder, got the family {model.config.family}"
        )

    _, head = find_head(model, "lm", "scores of answers")
    decoder_rows = [[decoder_start, *answer[:-1]] for answer in answers]
    check_lengths(model, [*rows, *decoder_rows])

    results = [torch.zeros(0, dtype=torch.float64)] * len(rows)
    device = model.family.device
    lengths = [len(row) + len(answer) for row, answer in zip(rows, decoder_rows, strict=True)]
    for batch in group_by_length(lengths, tokens):
        tensors = batch_tensors([rows[row] for row in batch], device)
        decoder = batch_tensors([decoder_rows[row] for row in batch], device)
        tensors |= {
            "decoder_input_ids": decoder["input_ids"],
            "decoder_position_ids": decoder["position_ids"],
        }
        targets = torch.tensor([token for row in batch for token in answers[row]], device=device)

        with torch.no_grad():
            hidden: Tensor = model.family(tensors)
            # states [n, dim] of the decoder's tokens, without padding
            lengths_of_answers = decoder["lengths"].to(device).reshape(-1, 1)
            is_token = torch.arange(hidden.shape[1], device=device) < lengths_of_answers
            states = hidden[is_token.expand(len(batch), -1)]
            scores = log_probabilities(head, states, targets, model.vocab_size)

        for row, row_scores in zip(
            batch, torch.split(scores, [len(answers[row]) for row in batch]), strict=True
        ):
            results[row] = row_scores

    return results
