"""Measure what a run's weights matter for: `python tools/fisher.py RUN output=FILE [rows=256] [data=SHARDS]`.

Writes the diagonal of the Fisher information and the weights, which the regularizer `ewc` of a later training takes.
Labels are drawn from the model; `empirical=true` takes those of the data, which is another quantity.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from pipeline.config import STRICT
from pipeline.configuration.home import HOME_EXPANDED
from pipeline.errors import ConfigurationError
from pipeline.seeding import keyed_hash
from pipeline.shards import ShardSet, open_shards
from tools.lib.command import Arguments, run_tool, some_path
from tools.lib.fisher import diagonal_fisher, refuse_undrawable
from tools.lib.model_folder import write_tensors
from tools.lib.run_sets import SET_PATHS_HELP, locate_sets, open_first_set, split_set_paths
from tools.lib.settings import add_settings, settings_of
from tools.lib.trained_model import load_trained
from train.run_directory import read_config
from train.stream.collate import Collate


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FisherOptions:
    """Choice of the examples, and the file to write."""

    output: Annotated[Path, HOME_EXPANDED]
    """file to write"""
    data: Annotated[Path, HOME_EXPANDED] | None = None
    """shard set of examples; default: the run's first training set"""
    rows: Annotated[int, Field(ge=1)] = 256
    """examples, drawn from the set; 200 or more"""
    seed: Annotated[int, Field(ge=0)] = 0
    """seed of the choice of rows, and of their labels"""
    empirical: bool = False
    """take the labels of the data"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""


def chosen_rows(shards: ShardSet, rows: int, seed: int) -> Iterator[dict[str, Tensor]]:
    """Yield batches of one row each, drawn from a set without repetition, all of it if it has no more rows."""
    collate = Collate.from_manifest(shards.manifest)
    chosen = np.random.default_rng(keyed_hash("rows", seed)).permutation(len(shards))[:rows]
    places = map(shards.locate, np.sort(chosen).tolist())
    for number, in_block in groupby(places, key=itemgetter(0)):
        block = shards.read_block(number)
        for _, row in in_block:
            columns = {name: block.columns[name].take(np.array([row])) for name in collate.columns}
            yield collate(columns, np.ones(1, np.float32))


def _run(options: argparse.Namespace) -> int:
    given, words = split_set_paths(options.overrides)
    chosen = settings_of(FisherOptions, words)
    trained = load_trained(options.run, chosen.step, given)
    model = trained.model
    if "sample_words" in model.needs:
        raise ConfigurationError(f"{options.run}: its inputs are drawn in training; measure a run without a generator")
    if not chosen.empirical:
        refuse_undrawable(model.heads)
    if chosen.data is None:
        shards = open_first_set(options.run, locate_sets(options.run, read_config(options.run).data, given))
    else:
        shards = open_shards(chosen.data)
    trained.refuse_other_tokenizer(shards)
    fisher = diagonal_fisher(
        model, chosen_rows(shards, chosen.rows, chosen.seed), chosen.seed, empirical=chosen.empirical
    )
    weights = dict(model.named_parameters())
    tensors = {f"fisher/{name}": values for name, values in fisher.items()}
    tensors |= {f"weight/{name}": weights[name].detach() for name in fisher}
    said = {"step": trained.step, "rows": min(chosen.rows, len(shards)), "empirical": chosen.empirical}
    write_tensors(chosen.output, tensors, {"fisher": json.dumps(said)})
    mean = sum(float(values.sum()) for values in fisher.values()) / sum(values.numel() for values in fisher.values())
    sys.stdout.write(f"{chosen.output}: {said['rows']} rows at step {trained.step}, mean {mean:.3g}\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run directory of train/main.py")
    add_settings(parser, FisherOptions, help_text=f"settings, listed below; {SET_PATHS_HELP}")
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
