"""Estimate the diagonal of the Fisher information of a model from examples.

Source: arXiv 1612.00796, section 2.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import ClassOptions
from clozeline.model.heads._head import Head, LabelHead
from clozeline.model.loss import gather_labels
from clozeline.model.parameters.initial_values import generator_for
from clozeline.pipeline.shards import ShardSet
from clozeline.seeding import hash64
from clozeline.train.data.stream.collate import Collate


def draw_rows(shards: ShardSet, rows: int, seed: int) -> Iterator[dict[str, Tensor]]:
    """Yield batches of one row each, drawn from a set without replacement.

    All rows of a smaller set.
    """
    collate = Collate.from_manifest(shards.manifest)
    indices = np.random.default_rng(hash64("rows", seed)).permutation(len(shards))[:rows]
    positions = map(shards.locate, np.sort(indices).tolist())
    for number, in_block in groupby(positions, key=itemgetter(0)):
        block = shards.read_block(number)
        for _, row in in_block:
            columns = {name: block.columns[name].take(np.array([row])) for name in collate.columns}
            yield collate(columns, np.ones(1, np.float32))


def diagonal_fisher(
    model: nn.Module,
    examples: Iterable[Mapping[str, Tensor]],
    seed: int,
    *,
    empirical: bool = False,
) -> dict[str, Tensor]:
    """Return the mean squared gradient of the labels' log-probability, by parameter.

    `examples` are batches of one row; labels are drawn with a generator for each, or with
    `empirical` taken from the data. Otherwise the heads must pass `require_drawable_labels`. The
    model is in evaluation mode.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    squares = {name: torch.zeros_like(p) for name, p in parameters.items()}
    count = 0

    for count, tensors in enumerate(examples, 1):
        generator = generator_for(seed, f"labels of example {count}")
        labeled = tensors if empirical else _draw_labels(model, tensors, generator)
        # gradient of one example's loss, squared and summed
        losses = {name: loss.total for name, loss in model(labeled).items()}
        loss = torch.stack(
            [total * _labels_of_mean(model, name) for name, total in losses.items()]
        ).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                squares[name] += gradient.square()

    return {name: total / max(1, count) for name, total in squares.items()}


def _labels_of_mean(model: nn.Module, name: str) -> int:
    """Return how many labels of a row a head averages; its log-probability is their sum."""
    head: Any = model.heads[name]  # type: ignore[index]
    return head.outputs() if head.options.multi_label else 1


def require_drawable_labels(heads: Mapping[str, Head]) -> None:
    """Raise ConfigurationError unless labels can be sampled from the model.

    It needs one head, with a distribution.
    """
    if len(heads) > 1:
        raise ConfigurationError(
            f"model.heads: labels are sampled from one head, this model has {', '.join(heads)}; "
            "set empirical=true to use the labels of the data"
        )
    for name, head in heads.items():
        if not (isinstance(head, LabelHead) or isinstance(head.options, ClassOptions)):
            raise ConfigurationError(
                f"model.heads.{name}: labels cannot be sampled from it; set empirical=true to use "
                "those of the data"
            )


def _draw_labels(
    model: nn.Module, tensors: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    (head,) = model.heads.values()  # type: ignore[operator]
    seen: list[Any] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))

    with torch.no_grad():
        model(tensors)
        hook.remove()
        hidden, batch = seen

        if not isinstance(head, LabelHead):
            key = "label"
            scores = head.scores(hidden, batch)
        elif batch["label_index"].numel():
            key = "label_ids"
            scores = head.logits(gather_labels(hidden, batch).states)
        else:
            return dict(tensors)

        # [1, classes], each drawn independently
        if head.options.multi_label:
            return {
                **tensors,
                key: torch.bernoulli(scores.float().sigmoid(), generator=generator).to(torch.int64),
            }

        return {
            **tensors,
            key: torch.multinomial(scores.float().softmax(-1), 1, generator=generator)[:, 0],
        }
