"""The trainer's configuration: every key, its default and its range, and the checks that need several of them.

Which keys may differ between a run and its continuation is decided here too: `frozen` leaves out where a run stops,
how it is spread over processes, and what it writes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer
from pydantic.dataclasses import dataclass

from model.config import ModelConfig
from pipeline.config import STRICT, to_plain
from pipeline.errors import ConfigurationError
from pipeline.registry import Chosen, OneOf, choose
from pipeline.shards import StoreOptions
from pipeline.shards.store import as_url
from train.online import OnlineEntries
from train.order import default_lanes

__all__ = [
    "CheckpointConfig",
    "DataConfig",
    "EvaluateConfig",
    "LogConfig",
    "PhaseConfig",
    "TrainConfig",
    "ZeroConfig",
    "check_world",
    "flatten",
    "frozen",
]

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


def _as_given(value: Any) -> Any:
    """Paths as text; of a URL `Path` has folded the double slash, a saved configuration has it again."""
    if isinstance(value, dict):
        return {name: _as_given(path) for name, path in value.items()}
    if isinstance(value, list):
        return [_as_given(path) for path in value]
    return value if value is None else as_url(value) or str(value)


_AS_GIVEN: Final = PlainSerializer(_as_given)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PhaseConfig:
    """One phase of the data."""

    shards: Annotated[Path | list[Path], _AS_GIVEN]
    """manifest.json of a training set, or its folder; several are mixed"""
    weights: list[Annotated[float, Field(gt=0.0)]] = Field(default_factory=list)
    """share of each set in every global batch; default: equal ones"""
    until_samples: Positive | None = None
    """samples of the whole run after which the phase ends, a multiple of the global batches beside it; only the last
    phase has none"""
    global_batch: Positive | None = None
    """rows of one optimizer step in this phase; default: data.global_batch"""

    @property
    def sets(self) -> list[Path]:
        """Its sets as a list."""
        return self.shards if isinstance(self.shards, list) else [self.shards]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataConfig:
    """What is read, and in which portions."""

    shards: Annotated[Path | list[Path] | None, _AS_GIVEN] = None
    """manifest.json of the training set, or its folder; several are mixed; this or `phases`"""
    weights: list[Annotated[float, Field(gt=0.0)]] = Field(default_factory=list)
    """share of each of several `shards` in every global batch; default: equal ones"""
    phases: list[PhaseConfig] = Field(default_factory=list)
    """sets that follow one another, such as short rows and then long ones"""
    corrupt: OnlineEntries = Field(default_factory=list)
    """objective that corrupts sample sets while they are read: {name: masked_lm, ...}; variant = epoch; a list where
    sets differ in their grouping, such as short rows and then long ones: each set gets the one that reads it"""
    heldout: Annotated[Path | dict[str, Path] | None, _AS_GIVEN] = None
    """held-out set, or several by name; default: `../heldout/manifest.json` beside the first training set, where it
    exists; beside a URL none is looked for"""
    global_batch: Positive = 64
    """rows of one optimizer step, over all ranks and micro-batches"""
    micro_batch: Positive = 8
    """rows of one forward pass on one rank; never changes a result beyond rounding"""
    lanes: Positive | None = None
    """equal streams that make up a global batch, a divisor of it and a multiple of the world size; part of the order;
    default: gcd(64, global_batch), with those of all phases"""
    seed: Natural = 0
    """seed of the order of blocks and rows"""
    io_threads: Natural = 2
    """threads that read, check and unpack blocks; 0 reads in the training thread"""
    prefetch_blocks: Natural = 1
    """blocks read ahead for each lane"""
    memory_bytes: Positive = 8 << 30
    """bytes that loaded rows may take on one rank; where many lanes on few ranks need more, blocks are read several
    times, a part of their rows each time"""
    token_dtype: Literal["uint16", "int32", "int64"] = "int64"
    """type in which input ids travel to the device, where they are widened: uint16 (vocabularies up to 65,536) makes
    batches a quarter as large in page-locked memory and on the bus"""
    length_buckets: bool = False
    """whether a rank's rows of a global batch are put in order of length, so that micro-batches have fewer pads"""
    on_corrupt: Literal["raise", "mask"] = "raise"
    """a block that stays unreadable ends the run, or its rows become filler rows and nothing else moves"""
    max_corrupt_fraction: Annotated[float, Field(ge=0.0, le=1.0)] = 1e-4
    """share of a set's blocks that may be masked before the run ends all the same"""
    store: StoreOptions = StoreOptions()
    """how sets are read whose path is a URL: {retries, timeout_s, cache_dir, cache_bytes, fsspec}"""

    def __post_init__(self) -> None:
        if (self.shards is None) == (not self.phases):
            raise ValueError(f"data: expected shards or phases, got {'neither' if self.shards is None else 'both'}")
        if self.weights and self.phases:
            raise ValueError(
                "data.weights: belong to data.shards; beside data.phases, each phase has weights of its own"
            )

    @property
    def all_phases(self) -> dict[str, PhaseConfig]:
        """The phases by the key that names them; `shards` alone is one endless phase."""
        if self.shards is not None:
            return {"data.shards": PhaseConfig(shards=self.shards, weights=self.weights)}
        return {f"data.phases[{number}].shards": phase for number, phase in enumerate(self.phases)}

    @property
    def first_set(self) -> Path:
        """The first training set."""
        return next(iter(self.all_phases.values())).sets[0]

    @property
    def lane_count(self) -> int:
        """Lanes, with the default filled in."""
        batches = (phase.global_batch for phase in self.phases if phase.global_batch is not None)
        return self.lanes or default_lanes(self.global_batch, *batches)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ZeroConfig:
    """What DeepSpeed's ZeRO spreads over the ranks (arXiv 1910.02054)."""

    stage: Literal[0, 1, 2, 3] = 1
    """0 nothing, 1 optimizer state, 2 also gradients, 3 also parameters; 1 is right until memory is short"""
    bucket: Positive | None = None
    """elements sent in one collective; default: twice the parameters, at most 5e8"""
    persistent: Natural = 100_000
    """stage 3: parameters with at most this many elements stay whole on every rank, which spares gathering them"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EvaluateConfig:
    """When the held-out sets are read."""

    every: Positive | None = None
    """steps between evaluations; the end of the run always has one; null: only the end"""
    rows: Natural | None = None
    """most rows that are read of each held-out set, rounded up to whole batches of data.global_batch, the same ones
    every time; null: all; 0: no evaluation"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CheckpointConfig:
    """When the state is saved, and what is kept."""

    every: Positive | None = 1000
    """steps between checkpoints; the end of the run and a stop request always save; null: only those"""
    keep_last: Positive = 2
    """newest checkpoints to keep"""
    keep_every: Positive | None = None
    """also keep every checkpoint whose step is a multiple of this"""
    keep_best: bool = False
    """also keep the checkpoint with the lowest loss on the first held-out set"""
    max_failures: Positive = 3
    """failed saves in a row that end the run with exit code 74"""
    verify: Literal["sizes", "full"] = "full"
    """what a start checks of a checkpoint's files: sizes, or hashes as well"""
    allow_changed: tuple[str, ...] = ()
    """keys that may differ from the checkpoint's, for example [optimizer, data.seed]"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LogConfig:
    """What is written during the run."""

    every: Positive = 1
    """steps between objects of metrics.jsonl"""
    tensorboard: bool = True
    """also write TensorBoard event files"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TrainConfig:
    """A training run."""

    model: ModelConfig
    """the network and its heads"""
    data: DataConfig
    """what is read"""
    optimizer: Annotated[Chosen, OneOf("train.optimizers")] = Field(default_factory=lambda: _default("optimizers"))
    """an optimizer and its options: {name: adamw, learning_rate: 1e-3, weight_decay: 0.01, ...}"""
    schedule: Annotated[Chosen, OneOf("train.schedules")] = Field(default_factory=lambda: _default("schedules"))
    """a learning-rate schedule and its options: {name: linear, warmup: 100, steps: 10000, ...}"""
    zero: ZeroConfig = ZeroConfig()
    """how state is spread over ranks"""
    precision: Literal["fp32", "bf16"] = "fp32"
    """type of weights and gradients; bf16 keeps fp32 masters in the optimizer and needs zero.stage ≥ 1"""
    gradient_clipping: Annotated[float, Field(ge=0.0)] = 1.0
    """largest norm of the whole gradient; 0 does not clip"""
    seed: Natural = 0
    """seed of initial weights and dropout"""
    steps: Positive = 1000
    """step at which this run stops; may grow from start to start"""
    output: Path
    """run directory"""
    resume: Literal["auto", "never", "must"] = "auto"
    """auto: go on from the newest valid checkpoint, else start; must: fail without one; never: start anew, in an empty
    directory only"""
    evaluate: EvaluateConfig = EvaluateConfig()
    """held-out evaluation"""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """saving"""
    log: LogConfig = LogConfig()
    """metrics"""
    watchdog_s: Annotated[float, Field(ge=0.0)] = 1800.0
    """seconds without progress after which a process dumps its stacks and ends; 0: never"""
    max_consecutive_skips: Positive = 20
    """steps in a row with a gradient that is not finite, after which the run ends as diverged"""

    def __post_init__(self) -> None:
        data = self.data
        if data.global_batch % data.lane_count:
            raise ValueError(
                f"data.lanes: expected a divisor of data.global_batch {data.global_batch}, got {data.lane_count}"
            )
        if data.global_batch % data.micro_batch:
            raise ValueError(
                f"data.micro_batch: expected a divisor of data.global_batch {data.global_batch}, got {data.micro_batch}"
            )
        if self.precision == "bf16" and self.zero.stage == 0:
            raise ValueError("precision: bf16 needs zero.stage 1, 2 or 3, got 0; stage 1 is right for one process too")
        if self.zero.stage > 0 and not self.optimizer.type.elementwise:
            raise ValueError(f"optimizer: {self.optimizer.name} needs whole matrices: set zero.stage=0")

    def with_horizon(self, steps: int) -> TrainConfig:
        """The same configuration with `schedule.steps` filled in."""
        options = replace(self.schedule.options, steps=steps)
        return replace(self, schedule=Chosen(self.schedule.name, self.schedule.type, options))


def _default(kind: str) -> Chosen:
    return choose(f"train.{kind}", {"optimizers": "adamw", "schedules": "linear"}[kind])


def check_world(config: TrainConfig, world_size: int) -> int:
    """Micro-batches that each rank runs in a step.

    Raises:
        ConfigurationError: the world size fits neither lanes nor batches; the message names sizes that do.
    """
    data = config.data
    if data.lane_count % world_size:
        fits = [size for size in range(1, data.lane_count + 1) if data.lane_count % size == 0]
        also = ", which must be one too" if data.global_batch % world_size else ""
        raise ConfigurationError(
            f"data.lanes: {data.lane_count} lanes cannot be shared by {world_size} ranks; start with "
            f"{', '.join(map(str, fits))} ranks, or set data.lanes to a multiple of {world_size} that divides "
            f"data.global_batch {data.global_batch}{also} (the order of the data depends on the lanes)"
        )
    share = data.global_batch // world_size
    if data.global_batch % world_size or share % data.micro_batch:
        fits = [size for size in range(1, share + 1) if share % size == 0]
        raise ConfigurationError(
            f"data.micro_batch: {data.global_batch} rows over {world_size} ranks are {share} a rank, which "
            f"micro-batches of {data.micro_batch} do not divide; allowed: {', '.join(map(str, fits))}"
        )
    return share // data.micro_batch


_FREE: Final = (
    "steps",
    "output",
    "resume",
    "zero",
    "evaluate",
    "checkpoint",
    "log",
    "watchdog_s",
    "max_consecutive_skips",
    "data.shards",
    "data.weights",
    "data.phases",
    "data.heldout",
    "data.micro_batch",
    "data.io_threads",
    "data.prefetch_blocks",
    "data.memory_bytes",
    "data.token_dtype",
    "data.length_buckets",
    "data.on_corrupt",
    "data.max_corrupt_fraction",
    "data.store",
)
"""Keys in which a continuation may differ. Sets, weights and phases are held by the digest of the data."""


def frozen(config: TrainConfig) -> dict[str, Any]:
    """The keys that a continuation must share with its checkpoint, dotted, with their values."""
    plain = flatten(to_plain(config)) | {"data.lanes": config.data.lane_count}  # what counts is not how it is spelt
    return {key: value for key, value in plain.items() if not any(f"{key}.".startswith(f"{free}.") for free in _FREE)}


def flatten(plain: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
