"""Tiny configurations and random batches: the same global batch at a step for every world size and
micro-batch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clozeline.configuration.config import validate
from clozeline.train.checkpoint.checkpoints import Checkpoints, load
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.engine import Engine
from clozeline.train.hooks import UnwrappedModel

VOCABULARY = 301
LENGTH = 11


def plain_config(**changes):
    """A small encoder with odd sizes, as plain data.

    `changes` are dotted keys with `__` for the dot.
    """
    plain = {
        "model": {
            "family": "encoder",
            "dim": 20,
            "layers": 2,
            "attention_heads": 2,
            "ffn_dim": 39,
            "heads": {"masked_lm": 1.0},
            "position": {"maximum": 16},
            "dropout": {"hidden": 0.1, "attention": 0.1, "embedding": 0.1},
        },
        "data": {
            "shards": "nowhere",
            "global_batch": 8,
            "micro_batch": 2,
            "lanes": 4,
            "io_threads": 1,
        },
        "optimizer": {"name": "adamw", "learning_rate": 0.003, "weight_decay": 0.1},
        "schedule": {"name": "linear", "warmup": 2, "steps": 8},
        "zero": {"stage": 1, "bucket": 100_000},
        "steps": 8,
        "output": "nowhere",
        "log": {"tensorboard": False},
        "watchdog_s": 60.0,
        "seed": 7,
    }

    for key, value in changes.items():
        *parents, last = key.split("__")
        place = plain
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value

    return plain


def tiny(**changes):
    return validate(TrainConfig, plain_config(**changes), "tiny")


NO_DROPOUT = {"model__dropout": {}}


@dataclass
class RandomBatch:
    tensors: dict[str, Tensor]
    samples: int = 0
    epoch: float = 0.0
    origin: Any = field(default_factory=lambda: np.zeros((0, 3), np.int64))


def random_rows(step, rows, first, total):
    """Rows `first .. first + rows` of global batch `step`: 1 to 7 labels a row, lengths 4 to
    LENGTH."""
    generator = np.random.Generator(np.random.PCG64(step))
    ids = generator.integers(0, VOCABULARY, (total, LENGTH))
    lengths = generator.integers(4, LENGTH + 1, total)
    counts = generator.integers(1, 8, total)
    places = [
        np.sort(generator.permutation(length)[:count])
        for length, count in zip(lengths, counts, strict=True)
    ]
    labels = [generator.integers(0, VOCABULARY, len(place)) for place in places]
    mine = range(first, first + rows)
    index = np.concatenate([places[row] + (row - first) * LENGTH for row in mine])
    return {
        "input_ids": torch.from_numpy(ids[first : first + rows].copy()),
        "position_ids": torch.arange(LENGTH).repeat(rows, 1),
        "lengths": torch.from_numpy(lengths[first : first + rows].copy()),
        "row_weight": torch.ones(rows),
        "label_index": torch.from_numpy(index),
        "label_ids": torch.from_numpy(np.concatenate([labels[row] for row in mine])),
    }


class RandomSource:
    """A stream of random batches."""

    def __init__(self, config, world, step=0):
        self.config = config
        self.world = world
        self.step = step

    def next_step(self):
        self.step += 1
        data = self.config.data
        share = data.global_batch // self.world.size
        firsts = range(self.world.rank * share, (self.world.rank + 1) * share, data.micro_batch)
        return [
            RandomBatch(
                random_rows(self.step, data.micro_batch, first, data.global_batch),
                self.step * share,
            )
            for first in firsts
        ]


def build(config, world, seed=1, prepare=None):
    """An engine around a fresh model; `prepare(model)` may change the model first."""
    from clozeline.model.build import build_model
    from clozeline.model.parameters.sharding import UNSHARDED
    from clozeline.train.startup.starting_model import wrap_model

    placement = placement_of(config, world) if prepare is None else UNSHARDED
    model = build_model(config.model, VOCABULARY, {}, seed=seed, placement=placement)
    if prepare is not None:
        prepare(model)
    model, hooks = wrap_model(UnwrappedModel(model, config, None, placement))
    return Engine(model, config, world, hooks)


def train_steps(engine, first, last, kind=RandomSource):
    """Steps `first..last` of the random stream: (loss, gradient norm) of each, in hex."""
    config = engine.config
    world = engine.world
    source = kind(config, world, first - 1)
    schedule = config.schedule.build(config.schedule.options.steps)
    found = []

    for step in range(first, last + 1):
        batch = next_global_batch(source, engine.divisors, world, StopRequest())
        rate = config.optimizer.options.learning_rate * schedule(step)
        result = engine.step(batch.micro_batches, batch.counts, step, rate)
        found.append((global_loss(result, batch.counts, world).hex(), result.gradient_norm.hex()))

    return found


def global_loss(result, counts, world):
    totals = world.sum_over_ranks([float(total) for total in result.sums.values()])
    return sum(
        total / counts[head]
        for head, total in zip(result.sums, totals, strict=True)
        if counts[head]
    )


def store(directory, world, **options):
    """Checkpoints of a directory; reports are kept in `.reports`."""
    config = tiny(**{f"checkpoint__{key}": value for key, value in options.items()}).checkpoint
    reports = []
    found = Checkpoints(
        directory, config, world, lambda event, **fields: reports.append({"event": event, **fields})
    )
    found.reports = reports
    found.prepare()
    return found


def save(engine, directory, step):
    assert store(directory, engine.world).save(
        engine, TrainState(step=step, samples=step * 8, skipped=engine.skipped)
    )


def resume(engine, directory):
    found = store(directory, engine.world).find()
    load(engine, found)
    return found.state
