"""Log-likelihoods of answers given by an encoder-decoder."""

from collections.abc import Sequence

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
        ConfigurationError: the model is no encoder-decoder, has no next-token head, or is in training mode.
        BatchError: a row is longer than the position table.
    """
    if model.family.architecture != "encoder_decoder":
        raise ConfigurationError(f"scores of answers need an encoder-decoder, got the family {model.config.family}")
    _, head = head_of(model, "lm", "scores of answers")
    read = [[decoder_start, *answer[:-1]] for answer in answers]
    check_lengths(model, [*rows, *read])
    results = [torch.zeros(0, dtype=torch.float64)] * len(rows)
    device = model.family.device
    for batch in group_by_length([len(row) + len(answer) for row, answer in zip(rows, read, strict=True)], tokens):
        tensors = batch_tensors([rows[row] for row in batch], device)
        decoder = batch_tensors([read[row] for row in batch], device)
        tensors |= {"decoder_input_ids": decoder["input_ids"], "decoder_position_ids": decoder["position_ids"]}
        targets = torch.tensor([token for row in batch for token in answers[row]], device=device)
        with torch.no_grad():
            hidden: Tensor = model.family(tensors)
            # states [n, dim] of the decoder's tokens, without padding
            inside = torch.arange(hidden.shape[1], device=device) < decoder["lengths"].to(device).reshape(-1, 1)
            states = hidden[inside.expand(len(batch), -1)]
            scores = log_probabilities(head, states, targets, model.vocab_size)
        for row, row_scores in zip(batch, torch.split(scores, [len(answers[row]) for row in batch]), strict=True):
            results[row] = row_scores
    return results
