"""Read the data of a training run in reading order.

It comes from a run directory, or from a set and its settings.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class, load_config, validate
from clozeline.errors import ConfigurationError, IntegrityError, reading_run, write_note
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.command import Natural, Positive, UserPath
from clozeline.tools.runs.data import run_sets
from clozeline.tools.runs.data.run_steps import RunSteps
from clozeline.train.checkpoint.stored_checkpoint import step_of, steps_in
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.stream.mixture import Phase, SkippedRows, SourceKey
from clozeline.train.data.stream.phases import Input, distinct_sets, open_phases, read_phases
from clozeline.train.data.stream.reading_order import ReadingOrder, RowRead
from clozeline.train.logs.json_lines import read_lines

State: TypeAlias = Literal["unknown", "read", "skipped", "ahead", "beyond"]
STATES: Final[dict[State, str]] = {
    "unknown": "",
    "read": ", read already",
    "skipped": ", skipped after a divergence",
    "ahead": ", not read yet",
    "beyond": ", after the run's last step",
}
"""Descriptions of a position relative to a run."""

_ORDER_KEYS: Final = ("seed", "global_batch", "lanes")
"""Keys of `data` that determine the order, and the arguments that replace them without a run."""

VARIANTS: Final = 1 << 16
"""Variants of a sample that the stream corrupts."""


@config_class
class FeedOptions(run_sets.MovedSets):
    """A run, or a set and how it is read."""

    manifest: Annotated[UserPath | None, Positional(0)] = None
    """manifest.json of a shard set, or its folder"""
    run: UserPath | None = None
    """a run of train/main.py instead of a set"""
    seed: Natural | None = None
    """data.seed of the run; default: 0"""
    global_batch: Positive | None = None
    """data.global_batch of the run; default: 64"""
    lanes: Positive | None = None
    """data.lanes of the run; default: gcd(64, global_batch)"""


@dataclass(frozen=True)
class Feed:
    """The order in which sets are read, by a run or by one that would have these settings.

    `taken` lists (step, samples read by then) of the run's recorded steps. `saved` are the phases
    that it had planned when it last started, after `since` samples. With `skip`, rows of unreadable
    blocks are filler (`data.max_damaged_fraction`); with `by_tokens`, steps have as many rows as
    `data.batch_tokens` needs. `skipped` are the rows that rollbacks skipped, see `RunSteps`.
    """

    phases: Sequence[Phase[Input]]
    seed: int
    lanes: int
    global_batch: int
    steps: int | None = None
    taken: Sequence[tuple[int, int]] | None = None
    saved: Sequence[Phase[SourceKey]] = ()
    since: int = 0
    skip: bool = False
    by_tokens: bool = False
    skipped: Sequence[SkippedRows] = ()

    @cached_property
    def reading(self) -> ReadingOrder:
        """The order in which lanes read rows."""
        reading = ReadingOrder(self.phases, self.seed, self.lanes, self.global_batch)
        return reading.continue_from(self.saved, self.since) if self.saved else reading

    @property
    def sets(self) -> list[ShardSet]:
        """The sets by source index."""
        return self.reading.sets

    @cached_property
    def run_steps(self) -> RunSteps:
        """The steps of the run, or those that a run would have."""
        return RunSteps(
            self.reading.timeline, self.taken or (), by_tokens=self.by_tokens, skipped=self.skipped
        )

    def batch(self, samples: int) -> list[RowRead]:
        """Return the rows of the global batch that starts at a stream position, in order."""
        if samples < 0 or samples % self.lanes:
            raise ConfigurationError(
                f"samples={samples}: expected a multiple of the {self.lanes} lanes"
            )
        return self.reading.row_reads(samples // self.lanes, self.rows(samples) // self.lanes)

    def batch_start(self, visit: RowRead) -> int:
        """Return the stream position at which the global batch of a visit starts."""
        return self.run_steps.at(visit.position * self.lanes).begin

    def index_in_batch(self, visit: RowRead) -> int:
        """Return the index of a visit's row in its global batch."""
        step = self.run_steps.at(visit.position * self.lanes)
        return visit.lane * step.rows // self.lanes + visit.position - step.begin // self.lanes

    def epochs(self, source: int, samples: int) -> int:
        """Return how many epochs of a set have started before a stream position."""
        return self.reading.epochs(source, samples // self.lanes)

    def online(self, source: int) -> bool:
        """Return whether the stream corrupts a set's samples.

        Their variant is then the epoch modulo `VARIANTS`.
        """
        return self.reading.inputs[source].corruption is not None

    def rows(self, samples: int) -> int:
        """Return the number of rows of the global batch that starts at a position."""
        step = self.run_steps.at(samples)
        return (
            step.rows
            if step.begin == samples
            else self.reading.timeline.at(samples // self.lanes).global_batch
        )

    def step(self, samples: int) -> int:
        """Return the training step, counted from 1, whose batch contains a position."""
        return self.run_steps.at(samples).number

    def samples(self, step: int) -> int:
        """Return the position at which the batch of a step starts: the inverse of `step`."""
        return self.run_steps.step_of(step).begin

    def state(self, samples: int) -> State:
        """Return whether a run has read the global batch at a position, or will."""
        if self.taken is None:
            return "unknown"
        if self.run_steps.skipped(samples):
            return "skipped"
        if samples + self.rows(samples) <= (self.taken[-1][1] if self.taken else 0):
            return "read"
        return "ahead" if self.steps is None or self.step(samples) <= self.steps else "beyond"


def open_feed(options: FeedOptions) -> Feed:
    """Return the feed of the run or set that the options name."""
    order = {name: value for name in _ORDER_KEYS if (value := getattr(options, name)) is not None}

    if options.run is not None and options.manifest is None:
        for name in order:
            raise ConfigurationError(f"{name}: the run's value is used; omit it")
        return _open_run_feed(options.run, options.data)

    if options.manifest is None or options.run is not None:
        raise ConfigurationError("expected a MANIFEST or a run, such as run=mine/run; see --help")
    if options.data != run_sets.SetPaths():
        raise ConfigurationError(
            "data.shards: says where the sets of run=DIR are; without a run give MANIFEST alone"
        )

    data = DataConfig(shards=options.manifest, **order)
    if data.global_batch % data.lane_count:
        raise ConfigurationError(
            f"lanes={data.lanes}: expected a divisor of the global batch {data.global_batch}"
        )

    return _open_data_feed(data)


def _open_run_feed(run: Path, paths: run_sets.SetPaths) -> Feed:
    path = run / "config.yaml"
    if not path.is_file():
        raise ConfigurationError(
            f"run={run}: expected a run directory with config.yaml: give one, or copy it back"
        )

    with reading_run(path):
        # a dictionary: validating all of it would load torch
        config = load_config(dict[str, Any], path)
        data: DataConfig = validate(DataConfig, config.get("data"), str(path), "data.")
        steps: int = validate(int, config.get("steps"), str(path), "steps")

    with _reading_lines(run / "metrics.jsonl") as lines:
        taken = [(int(line["step"]), int(line["samples"])) for line in lines if "samples" in line]
    saved = list[Phase[SourceKey]]()
    since = 0
    skipped = list[SkippedRows]()

    with _reading_lines(run / "events.jsonl") as lines:
        starts = [line for line in lines if line.get("event") == "data"]
        if planned := [line for line in starts if "plans" in line]:
            saved = read_phases(planned[-1]["plans"])
            since = int(planned[-1]["samples"])
            skipped = [SkippedRows(*entry) for entry in planned[-1].get("skipped_rows", ())]
    # a killed run may have checkpoints without their lines in metrics.jsonl
    saved_steps = [step_of(path.name) for path in steps_in(run / "checkpoints")]
    last = taken[-1][0] if taken else 0
    if max(saved_steps, default=0) > last:
        write_note(
            f"{run / 'metrics.jsonl'}: ends at step {last:,}, a checkpoint is of step "
            f"{max(saved_steps):,}: lines are lost; the rows that the run has read are known up to "
            "the last line"
        )

    skip = data.max_damaged_fraction > 0
    data = run_sets.locate_sets(run, data, paths)
    with run_sets.explain_missing_sets(run, data):
        feed = _open_data_feed(data)
    by_tokens = data.batch_tokens is not None
    feed = replace(feed, steps=steps, taken=taken, saved=saved, since=since, skipped=skipped)
    return replace(feed, skip=skip, by_tokens=by_tokens)


@contextmanager
def _reading_lines(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects of a run's JSON lines file, without damaged lines."""
    try:
        yield read_lines(path)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IntegrityError(
            f"{path}: expected a JSON object a line, as train/main.py writes it ({error})"
        ) from error


def _open_data_feed(data: DataConfig) -> Feed:
    phases = open_phases(data)
    for shards in distinct_sets(phases):
        if shards.manifest.kind == "tokens":
            raise ConfigurationError(
                f"{shards.path}: a token set is not streamed; name a set of samples or examples"
            )
    return Feed(phases, data.seed, data.lane_count, data.global_batch)
