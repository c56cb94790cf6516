"""The diagonal of the Fisher information of a model, example by example (arXiv 1612.00796, section 2).

F = E_x E_y (d log p(y|x) / dw)², where labels y are drawn from the model itself. With the labels of the data instead it
is the *empirical* Fisher information, another quantity (arXiv 1905.12558). Squares are taken of the gradient of each
example: the square of a batch's mean gradient is smaller by about the size of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from model.draws import own_generator
from model.heads._head import Head
from model.heads._label_head import LabelHead
from model.heads.classification import Classification
from model.loss import gather_labels
from pipeline.errors import ConfigurationError


def diagonal_fisher(
    model: nn.Module, examples: Iterable[Mapping[str, Tensor]], seed: int, *, empirical: bool = False
) -> dict[str, Tensor]:
    """Return the mean squared gradient of the log-probability of labels, by parameter.

    Args:
        model: in evaluation mode, with heads of which `refuse_undrawable` refuses none, unless `empirical`.
        examples: batches of one row.
        seed: of the labels that are drawn; each example has a generator of its own.
        empirical: take the labels of the data.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    squares = {name: torch.zeros_like(p) for name, p in parameters.items()}
    count = 0
    for count, tensors in enumerate(examples, 1):
        labelled = tensors if empirical else _drawn(model, tensors, own_generator(seed, f"labels of example {count}"))
        loss = torch.stack([loss.total for loss in model(labelled).values()]).sum()
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                squares[name] += gradient.square()
    return {name: total / max(1, count) for name, total in squares.items()}


def refuse_undrawable(heads: Mapping[str, Head]) -> None:
    """Raise a ConfigurationError unless there is one head, and it has a distribution from which labels can be drawn."""
    if len(heads) > 1:
        raise ConfigurationError(
            f"model.heads: labels are drawn from one head, this model has {', '.join(heads)}; set empirical=true, "
            "which takes those of the data"
        )
    for name, head in heads.items():
        classes = isinstance(head, Classification) and not head.options.multi_label
        if not (isinstance(head, LabelHead) or classes):
            raise ConfigurationError(
                f"model.heads.{name}: labels cannot be drawn from it; set empirical=true, which takes those of the data"
            )


def _drawn(model: nn.Module, tensors: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Return the batch with labels drawn from what the model says."""
    (head,) = model.heads.values()  # type: ignore[operator]
    seen: list[Any] = []
    hook = head.register_forward_pre_hook(lambda _, given: seen.extend(given))
    with torch.no_grad():
        model(tensors)
        hook.remove()
        hidden, batch = seen
        if not isinstance(head, LabelHead):
            key, scores = "label", head.scores(hidden, batch)
        elif batch["label_index"].numel():
            key, scores = "label_ids", head.logits(gather_labels(hidden, batch).states)
        else:
            return dict(tensors)
        return {**tensors, key: torch.multinomial(scores.float().softmax(-1), 1, generator=generator)[:, 0]}
