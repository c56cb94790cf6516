"""Another value for each key of a training, and what must stand next to it.

Or the reason why it changes no bit.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Key(NamedTuple):
    """Another value of a key."""

    value: object
    read_with: Mapping = MappingProxyType({})
    """keys that must stand next to it; without them it must be refused, or change a bit"""
    alone: str = ""
    """why it may stand alone without an effect; empty: it may not"""


class Neutral(str):
    """Why a key changes no bit."""

    __slots__ = ()


SETS = "{sets}/train/manifest.json"
OTHER = "{sets}/other/train/manifest.json"

ON_A_RUN = Neutral("of a start from another run: tests of startup")
DISTILLED = Neutral("needs a teacher: tests of distillation")
DIVERGED = Neutral("of a run that diverges: tests of rollbacks")
SPEED = Neutral("speed, memory or waiting: the same bits")
PRINTED = Neutral("what is printed or written next to the run")
SAMPLES = Neutral("of sets of samples: tests of objectives and of the stream")

IN_PHASES = Neutral("part of data.phases, whose value has it: tests of the stream")
OF_STOP = Neutral("part of early_stop: tests of early stopping")

KEPT = "stop requests save, too, and a run may have several starts"

ENTRIES = {
    "activation_checkpointing": SPEED,
    "branch_from": ON_A_RUN,
    "checkpoint.allow_changed": ON_A_RUN,
    "checkpoint.asynchronous": SPEED,
    "checkpoint.at": Key(["100 tokens"]),
    "checkpoint.every": Key(1),
    "checkpoint.keep_best": Key(True, {"checkpoint.every": 1, "checkpoint.keep_last": 1}),
    "checkpoint.keep_every": Key(2, {"checkpoint.every": 1, "checkpoint.keep_last": 1}, KEPT),
    "checkpoint.keep_last": Key(1, {"checkpoint.every": 1}, KEPT),
    "checkpoint.tokens_per_word": Key(
        4.0, {"checkpoint.at": ["100 words"], "checkpoint.tokens_per_word": 1.0}
    ),
    "collective_timeout_s": SPEED,
    "compile": SPEED,
    "data.batch_tokens": Key(200),
    "data.corrupt.label": SAMPLES,
    "data.corrupt.name": SAMPLES,
    "data.folder": Neutral("a name for parts of other keys"),
    "data.global_batch": Key(16),
    "data.heldout": Key("{sets}/other/heldout/manifest.json"),
    "data.ignore": Neutral("of sets with further columns: tests of data sets"),
    "data.io_threads": SPEED,
    "data.label_capacity": SPEED,
    "data.lanes": Key(2),
    "data.length_buckets": Key(True),
    "data.max_damaged_fraction": Neutral("of damaged sets: tests of damage"),
    "data.max_lanes": Key(
        2, {"data.lanes": None}, "the bound of a default, for which lanes stands"
    ),
    "data.memory_bytes": SPEED,
    "data.micro_batch": Key(4),
    "data.phases.corrupt.label": SAMPLES,
    "data.phases.corrupt.name": SAMPLES,
    "data.phases.global_batch": IN_PHASES,
    "data.phases.learning_rate": IN_PHASES,
    "data.phases.share": IN_PHASES,
    "data.phases.shards.columns": IN_PHASES,
    "data.phases.shards.path": IN_PHASES,
    "data.phases.until_samples": IN_PHASES,
    "data.phases.weights": IN_PHASES,
    "data.prefetch_blocks": SPEED,
    "data.seed": Key(3),
    "data.shards": Key(OTHER),
    "data.shards.columns": Neutral("of sets with columns of another set: tests of data sets"),
    "data.shards.path": Key(OTHER, {"data.shards": {"path": SETS}}),
    "data.store.fsspec": Neutral("of URLs: tests of stores"),
    "data.store.retries": Neutral("of URLs: tests of stores"),
    "data.store.timeout_s": Neutral("of URLs: tests of stores"),
    "data.weights": Key([1.0, 3.0], {"data.shards": [SETS, OTHER]}),
    "deterministic": SPEED,
    "distil.further": DISTILLED,
    "distil.losses": DISTILLED,
    "distil.progressive": DISTILLED,
    "distil.start": DISTILLED,
    "distil.start.layers": DISTILLED,
    "distil.start.source": DISTILLED,
    "distil.teacher": DISTILLED,
    "early_stop": Key({"metric": "heldout/loss", "target": 100.0}),
    "early_stop.metric": OF_STOP,
    "early_stop.patience": OF_STOP,
    "early_stop.target": OF_STOP,
    "evaluate.every": Key(1),
    "evaluate.max_rows": Key(8),
    "freeze": Key(["embeddings"]),
    "gradient_clipping": Key(0.1),
    "hooks": Key([{"name": "unfreezing", "every": 1}]),
    "init_parts": ON_A_RUN,
    "log.every": Key(2),
    "log.spike": PRINTED,
    "log.tensorboard": PRINTED,
    "log.tracker": PRINTED,
    "max_consecutive_skips": DIVERGED,
    "on_divergence": DIVERGED,
    "on_divergence.max_rollbacks": DIVERGED,
    "on_divergence.rollback": DIVERGED,
    "on_divergence.skip_rows": DIVERGED,
    "optimizer": Key({"name": "muon"}),
    "output": PRINTED,
    "precision": Key("bf16", {"zero.stage": 1}),
    "profile": PRINTED,
    "profile.from": PRINTED,
    "profile.steps": PRINTED,
    "prune": Key({"name": "layer_drop", "p": 0.5}),
    "regularizer": ON_A_RUN,
    "resume": ON_A_RUN,
    "schedule": Key({"name": "cosine", "warmup": 2}),
    "seed": Key(8),
    "steps": Key(3),
    "watchdog_s": SPEED,
    "zero.bucket": SPEED,
    "zero.offload": SPEED,
    "zero.persistent": SPEED,
    "zero.stage": SPEED,
}
"""An entry for each key of a training, without those of its model."""

BASE = {
    "steps": 4,
    "zero": {"stage": 0},
    "schedule": {"name": "linear", "warmup": 1, "steps": 4},
    "evaluate": {"every": 2, "max_rows": 16},
    "checkpoint": {"every": None},
}
"""What the runs have in common, besides `tests.train.synthetic.plain_config`."""
