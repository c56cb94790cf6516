"""Viterbi decoding: the best tag sequence under rules about neighboring tags."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.errors import ConfigurationError


def bio_transitions(labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return scores of first tags [C] and of transitions [C, C], 0 or -inf, that keep BIO well formed.

    I-X comes after B-X or I-X only, and never first; everything else is allowed. I-X without B-X is
    refused.

    Example:
        >>> first, between = bio_transitions(["O", "B-PER", "I-PER"])
        >>> first.tolist(), between[:, 2].tolist()
        ([0.0, 0.0, -inf], [-inf, 0.0, 0.0])
    """
    first = torch.zeros(len(labels))
    between = torch.zeros(len(labels), len(labels))
    for inside, label in enumerate(labels):
        if not label.startswith("I-"):
            continue
        kind = label.removeprefix("I-")
        if f"B-{kind}" not in labels:
            raise ConfigurationError(
                f"labels: {label} has no B-{kind} to begin with; got {', '.join(labels)}"
            )
        first[inside] = -torch.inf
        for before, name in enumerate(labels):
            if name not in (f"B-{kind}", label):
                between[before, inside] = -torch.inf
    return first, between


def viterbi(scores: Tensor, lengths: Tensor, first: Tensor, between: Tensor) -> Tensor:
    """Return the tags [B, T] with the highest sum of scores, -100 after the end of a row; linear in T.

    Ties go to the sequence whose last tag has the lower index, then the last but one, and so on.

    Args:
        scores: [B, T, C].
        lengths: [B], tags of each row.
        first: [C], added to the first tag of a row.
        between: [C, C], added for the tag of the row followed by that of the column.
    """
    rows, columns, classes = scores.shape
    itself = torch.arange(classes, device=scores.device).expand(rows, -1)
    # forward: best sum [B, C] of sequences that end with each tag; rows that have ended keep theirs
    best = first + scores[:, 0]
    pointers = []
    for position in range(1, columns):
        reached, pointer = (best[:, :, None] + between).max(1)
        inside = (lengths > position)[:, None]
        best = torch.where(inside, reached + scores[:, position], best)
        pointers.append(torch.where(inside, pointer, itself))
    # backward: follow the pointers [B, C] from the best last tag
    tags = [best.argmax(-1)]
    for pointer in reversed(pointers):
        tags.append(pointer.gather(1, tags[-1][:, None])[:, 0])
    outside = torch.arange(columns, device=scores.device) >= lengths[:, None]
    return torch.stack(tags[::-1], dim=1).masked_fill(outside, IGNORED)
