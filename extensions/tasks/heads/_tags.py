"""Viterbi decoding: the best tag sequence under rules about neighboring tags."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.errors import ConfigurationError


def bio_transitions(labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return scores of first tags [C] and transitions [C, C], 0 or -inf, that enforce valid BIO.

    I-X may only follow B-X or I-X, and never comes first; everything else is allowed.

    Raises:
        ConfigurationError: a label I-X exists without B-X.

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
        entity = label.removeprefix("I-")
        if f"B-{entity}" not in labels:
            raise ConfigurationError(
                f"labels: {label} needs B-{entity}, which starts an entity; got {', '.join(labels)}"
            )
        first[inside] = -torch.inf
        for before, name in enumerate(labels):
            if name not in (f"B-{entity}", label):
                between[before, inside] = -torch.inf

    return first, between


def viterbi(scores: Tensor, lengths: Tensor, first: Tensor, between: Tensor) -> Tensor:
    """Return the tags [B, T] with the highest sum of scores, -100 after the end of a row.

    Time is linear in T. Ties go to the lower index of the last tag, then of the one before, and so
    on.

    Args:
        scores: [B, T, C].
        lengths: [B], number of tags in each row.
        first: [C], added to the first tag of a row.
        between: [C, C], added for a tag (row) followed by a tag (column).
    """
    rows, columns, classes = scores.shape
    itself = torch.arange(classes, device=scores.device).expand(rows, -1)
    # forward: best sum [B, C] of sequences ending with each tag; rows that have ended keep theirs
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
