"""Estimate how much a run's weights matter: `clozeline fisher RUN output=FILE [rows=256] [data=SHARDS]`.

Writes the weights and the diagonal of the Fisher information, F = E_x E_y (d log p(y|x) / dw)² (arXiv 1612.00796,
section 2), for the regularizer `ewc` of a later training. Labels y are sampled from the model; `empirical=true` uses
the labels of the data, which is a different quantity (arXiv 1905.12558). Gradients are squared per example: the square
of a batch's mean gradient is smaller by about the batch size.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from clozeline.configuration.config import STRICT
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.model.heads._head import Head
from clozeline.model.heads._label_head import LabelHead
from clozeline.model.heads.classification import Classification
from clozeline.model.loss import gather_labels
from clozeline.model.parameters.initial_values import generator_for
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.seeding import hash64
from clozeline.tools.command import Arguments, run_tool, some_path
from clozeline.tools.model_folder import write_tensors
from clozeline.tools.runs.data.run_sets import SET_PATHS_HELP, locate_sets, open_first_set, split_set_paths
from clozeline.tools.runs.inference.trained_model import load_trained
from clozeline.tools.settings import add_settings, settings_of
from clozeline.train.data.stream.collate import Collate
from clozeline.train.startup.run_directory import read_config


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FisherOptions:
    """Which examples to use, and the file to write."""

    output: Annotated[Path, HOME_EXPANDED]
    """file to write"""
    data: Annotated[Path, HOME_EXPANDED] | None = None
    """shard set of examples; default: the run's first training set"""
    rows: Annotated[int, Field(ge=1)] = 256
    """number of examples drawn from the set; 200 or more"""
    seed: Annotated[int, Field(ge=0)] = 0
    """seed of the drawn rows and labels"""
    empirical: bool = False
    """use the labels of the data"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""


def draw_rows(shards: ShardSet, rows: int, seed: int) -> Iterator[dict[str, Tensor]]:
    """Yield batches of one row each, drawn from a set without replacement; all rows of a smaller set."""
    collate = Collate.from_manifest(shards.manifest)
    indices = np.random.default_rng(hash64("rows", seed)).permutation(len(shards))[:rows]
    positions = map(shards.locate, np.sort(indices).tolist())
    for number, in_block in groupby(positions, key=itemgetter(0)):
        block = shards.read_block(number)
        for _, row in in_block:
            columns = {name: block.columns[name].take(np.array([row])) for name in collate.columns}
            yield collate(columns, np.ones(1, np.float32))


def diagonal_fisher(
    model: nn.Module, examples: Iterable[Mapping[str, Tensor]], seed: int, *, empirical: bool = False
) -> dict[str, Tensor]:
    """Return the mean squared gradient of the labels' log-probability, by parameter.

    Args:
        model: in evaluation mode; unless `empirical`, its heads must pass `require_drawable_labels`.
        examples: batches of one row.
        seed: seed of the sampled labels; each example has its own generator.
        empirical: use the labels of the data.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    squares = {name: torch.zeros_like(p) for name, p in parameters.items()}
    count = 0
    for count, tensors in enumerate(examples, 1):
        labeled = (
            tensors if empirical else _draw_labels(model, tensors, generator_for(seed, f"labels of example {count}"))
        )
        loss = torch.stack([loss.total for loss in model(labeled).values()]).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                squares[name] += gradient.square()
    return {name: total / max(1, count) for name, total in squares.items()}


def require_drawable_labels(heads: Mapping[str, Head]) -> None:
    """Raise ConfigurationError unless the model has one head, with a distribution to sample labels from."""
    if len(heads) > 1:
        raise ConfigurationError(
            f"model.heads: labels are sampled from one head, this model has {', '.join(heads)}; set empirical=true to "
            "use those of the data"
        )
    for name, head in heads.items():
        classes = isinstance(head, Classification) and not head.options.multi_label
        if not (isinstance(head, LabelHead) or classes):
            raise ConfigurationError(
                f"model.heads.{name}: labels cannot be sampled from it; set empirical=true to use those of the data"
            )


def _draw_labels(model: nn.Module, tensors: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Return the batch with labels sampled from the model's predictions."""
    (head,) = model.heads.values()  # type: ignore[operator]
    seen: list[Any] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
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


def _run(options: argparse.Namespace) -> int:
    set_paths, words = split_set_paths(options.overrides)
    chosen = settings_of(FisherOptions, words)
    trained = load_trained(options.run, chosen.step, set_paths)
    model = trained.model
    if "sample_words" in model.needs:
        raise ConfigurationError(f"{options.run}: its inputs are sampled in training; use a run without a generator")
    if not chosen.empirical:
        require_drawable_labels(model.heads)
    if chosen.data is None:
        shards = open_first_set(options.run, locate_sets(options.run, read_config(options.run).data, set_paths))
    else:
        shards = open_shards(chosen.data)
    trained.require_same_tokenizer(shards)
    fisher = diagonal_fisher(
        model, draw_rows(shards, chosen.rows, chosen.seed), chosen.seed, empirical=chosen.empirical
    )
    weights = dict(model.named_parameters())
    tensors = {f"fisher/{name}": values for name, values in fisher.items()}
    tensors |= {f"weight/{name}": weights[name].detach() for name in fisher}
    metadata = {"step": trained.step, "rows": min(chosen.rows, len(shards)), "empirical": chosen.empirical}
    write_tensors(chosen.output, tensors, {"fisher": json.dumps(metadata)})
    mean = sum(float(values.sum()) for values in fisher.values()) / sum(values.numel() for values in fisher.values())
    sys.stdout.write(f"{chosen.output}: {metadata['rows']} rows at step {trained.step}, mean {mean:.3g}\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, FisherOptions, help_text=f"settings, listed below; {SET_PATHS_HELP}")
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
