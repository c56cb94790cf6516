"""Fill the masks of rows with a masked LM, a few masks per step, in any order.

The same sampler serves cloze sentences and masked diffusion (MDLM, arXiv 2406.07524; LLaDA, arXiv
2502.09992), whose text starts as a row of masks.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.decoding.sampling import draw, probabilities, uniform
from clozeline.model.generation.decoding import Decoding
from clozeline.model.scoring.masked import logits_at_masks

Predict: TypeAlias = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[Tensor]]
"""Map rows and the positions of their masks to the logits there, [masks, vocabulary] per row."""
_ORDER = 1 << 63
"""first step of the draws that order a row's masks; draws of tokens use lower steps"""


@dataclass(frozen=True)
class Filling:
    """A row whose masks are filled."""

    ids: list[int]
    filled: list[int]
    """positions of the former masks, in the order in which they were filled"""
    score: float
    """sum of the natural log-probabilities of the new tokens, each given the row at its step;
    depends on the order"""


def unmask(
    model: Model,
    rows: Sequence[Sequence[int]],
    mask_id: int,
    decoding: Decoding,
    *,
    banned: Collection[int] = (),
    previous: bool = False,
) -> list[list[Filling]]:
    """Fill every mask of each row; a row's fillings do not depend on the other rows.

    Args:
        model: in evaluation mode, with a masked LM head.
        rows: token ids with special tokens and any number of masks.
        mask_id: id of [MASK], which is never predicted.
        decoding: settings with mode unmask.
        banned: further tokens that are never predicted.
        previous: whether position i is predicted at i - 1 (arXiv 2410.24159).

    Returns:
        The fillings of each row, best first: at most `decoding.width`, otherwise one.

    Raises:
        ConfigurationError: the model has no masked LM head, or is in training mode; the mode is not
            unmask.
        BatchError: a row is longer than the position table, or no token can be predicted.
    """
    return unmask_with(
        partial(logits_at_masks, model, previous=previous), rows, mask_id, decoding, banned
    )


def unmask_with(
    predict: Predict,
    rows: Sequence[Sequence[int]],
    mask_id: int,
    decoding: Decoding,
    banned: Collection[int] = (),
) -> list[list[Filling]]:
    """Fill rows as `unmask` does, with any function that predicts tokens."""
    if decoding.mode != "unmask":
        raise ConfigurationError(f"filling masks needs mode=unmask, got mode={decoding.mode}")
    never = sorted({mask_id, *banned})
    fillings = [Filling(list(row), [], 0.0) for row in rows]
    if (decoding.width or 1) > 1:
        return _fill_beams(predict, fillings, mask_id, decoding.width or 1, never)

    # each step fills the next share of the masks, at all rows that have one
    shares = [_mask_counts(row.ids.count(mask_id), decoding.steps) for row in fillings]
    for step in range(max(map(len, shares), default=0)):
        open_rows = [number for number, share in enumerate(shares) if step < len(share)]
        predicted = _log_probabilities(
            predict, [fillings[number] for number in open_rows], mask_id, never
        )
        for number, (masks, scores) in zip(open_rows, predicted, strict=True):
            tokens = _choose_tokens(scores, masks, decoding, number)
            gains = scores.gather(1, tokens[:, None])[:, 0]
            # order of the masks, of which the first ones are filled now
            if decoding.order == "random":
                ranks = torch.tensor(
                    [uniform(decoding.seed, number, _ORDER + position) for position in masks]
                )
            else:
                ranks = -gains

            chosen = ranks.argsort(stable=True)[: shares[number][step]].tolist()
            new = [(masks[index], int(tokens[index]), float(gains[index])) for index in chosen]
            fillings[number] = _fill(fillings[number], new)

    return [[row] for row in fillings]


def _mask_counts(masks: int, steps: int | None) -> list[int]:
    """Return the number of masks that each step fills: equal numbers, larger ones first.

    Example:
        >>> _mask_counts(7, 3), _mask_counts(2, None), _mask_counts(2, 5)
        ([3, 2, 2], [1, 1], [1, 1])
    """
    steps = min(masks, steps or masks)
    return [masks // steps + (step < masks % steps) for step in range(steps)]


def _log_probabilities(
    predict: Predict, rows: Sequence[Filling], mask_id: int, never: Sequence[int]
) -> list[tuple[list[int], Tensor]]:
    """Return the masks of each row, and the log-probabilities there, fp64 [masks, vocabulary]."""
    masks = [
        [position for position, token in enumerate(row.ids) if token == mask_id] for row in rows
    ]
    predicted = []

    for number, (positions, logits) in enumerate(
        zip(masks, predict([row.ids for row in rows], masks), strict=True)
    ):
        scores = logits.double()
        scores[:, never] = -torch.inf
        if not bool(scores.max(-1).values.isfinite().all()):
            raise BatchError(
                f"row {number}: no token has a finite score at one of the positions {positions}"
            )
        predicted.append((positions, scores.log_softmax(-1)))

    return predicted


def _choose_tokens(scores: Tensor, masks: Sequence[int], decoding: Decoding, row: int) -> Tensor:
    """Return a token [masks] for each mask: the most probable, or one drawn by its position."""
    if decoding.temperature is None and decoding.top_k is None and decoding.top_p is None:
        return scores.argmax(-1)
    distribution = probabilities(
        scores, decoding.temperature or 1.0, decoding.top_k, decoding.top_p
    )
    step = len(masks) << 32
    return draw(distribution, [uniform(decoding.seed, row, step + position) for position in masks])


def _fill(row: Filling, new: Sequence[tuple[int, int, float]]) -> Filling:
    """Return a row with new tokens, given their positions, ids and log-probabilities."""
    ids = list(row.ids)
    for position, token, _ in new:
        ids[position] = token
    return Filling(
        ids,
        row.filled + [position for position, *_ in new],
        row.score + sum(gain for *_, gain in new),
    )


def _fill_beams(
    predict: Predict, rows: Sequence[Filling], mask_id: int, width: int, never: Sequence[int]
) -> list[list[Filling]]:
    """Keep the `width` best fillings of each row; each fills its most certain mask next."""
    beams = [[row] for row in rows]

    for _ in range(max((row.ids.count(mask_id) for row in rows), default=0)):
        live = [beam for beam in beams if mask_id in beam[0].ids]
        predicted = iter(
            _log_probabilities(predict, [row for beam in live for row in beam], mask_id, never)
        )

        for beam in live:
            # all different: two rows differ at a mask that both have filled
            grown: list[Filling] = []
            for row in beam:
                masks, scores = next(predicted)
                index = int(scores.max(-1).values.argmax())
                best = scores[index].topk(min(width, scores.shape[1]))
                grown += [
                    _fill(row, [(masks[index], token, gain)])
                    for gain, token in zip(best.values.tolist(), best.indices.tolist(), strict=True)
                    if gain > -torch.inf
                ]
            beam[:] = sorted(grown, key=lambda row: (-row.score, row.ids))[:width]

    return beams
