"""Monitor data loading over all ranks: stream counters, skipped blocks, time spent waiting."""

from collections.abc import Callable, Sequence
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.train.data.stream.mixture import PERIOD, PhaseSpan
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World

_WINDOW_STEPS: Final = 100
"""Steps whose waiting time is added up; a single step may be at the end of a round."""
_STARVED_SHARE: Final = 0.05
"""Share of the step time above which waiting for data is announced."""


class LoadingHealth:
    """Watches the streams of a run, the training stream first.

    The run ends if more than the share `limit` of the blocks of a set is skipped.
    """

    def __init__(
        self, streams: Sequence[Stream], world: World, limit: float, announce: Callable[..., None]
    ) -> None:
        self.training = training = streams[0]
        self._world = world
        self._limit = limit
        self._announce = announce
        self._sources = [source for stream in streams for source in stream.sources]
        self._skipped: set[tuple[int, int]] = set()
        self._span = training.timeline.at(training.samples // training.lanes)
        self._window: list[tuple[float, float]] = []
        """Seconds of waiting and of the step, for each step since the last full window; without the
        first step, which waits for the first round."""
        self._started = False
        self._starved = False

    def phases(self) -> list[dict[str, object]]:
        """Return the phases of the data: ends and actual shares of the sets."""
        return [self._describe_phase(span) for span in self.training.timeline.spans]

    def announce_shares(self, step: int) -> None:
        """Announce the shares of the sets in the rows read, if the current phase mixes some."""
        span = self._span
        drawn = span.count_drawn(self.training.samples // self.training.lanes)
        if len(drawn) > 1 and any(drawn):
            asked = ", ".join(f"{weight:.1%}" for weight in span.mixture.counts / PERIOD)
            shares = self.training.reading.shares(span, drawn)
            self._announce("mixed", step=step, shares=shares, asked=asked)

    def origins(self, samples: int, rows: int) -> list[list[int]]:
        """Return (source, stored block, row) of each of the `rows` after `samples` but filler."""
        origins: list[list[int]] = []
        end = samples + rows
        while samples < end:
            portion = self.training.explain(samples)
            origins += [origin for origin in portion.tolist() if origin[0] >= 0]
            samples += len(portion)
        return origins

    def observe_step(self, step: int, waited: float, seconds: float) -> None:
        """Announce a new phase of the data, or steps that wait for data."""
        span = self.training.timeline.at(self.training.samples // self.training.lanes - 1)
        if span is not self._span:
            self._span = span
            self._announce("phase", step=step, **self._describe_phase(span))

        # announce waiting once for consecutive windows with too much of it
        if self._started:
            self._window.append((waited, seconds))
        self._started = True

        if len(self._window) == _WINDOW_STEPS:
            waiting, total = map(sum, zip(*self._window, strict=True))
            was_starved = self._starved
            self._starved = waiting > _STARVED_SHARE * total
            if self._starved and not was_starved:
                self._announce(
                    "data_starved", step=step, steps=_WINDOW_STEPS, waited_share=waiting / total
                )
            self._window = []

    def announce_damage(self, step: int) -> None:
        """Announce the blocks that any rank skipped since the last call; a collective call."""
        # copy at once: a thread may be adding one
        mine = {
            (number, block)
            for number, source in enumerate(self._sources)
            for block in tuple(source.skipped)
        }

        skipped = set().union(*self._world.gather(mine))

        # announce the new ones
        for number, block in sorted(skipped - self._skipped):
            shards = self._sources[number].shards
            name = shards.manifest.shards[int(shards.index.shard[block])].path
            block_of_shard = {"shard": name, "block": int(shards.index.block[block])}
            self._announce("skipped_block", step=step, shards=str(shards.path), **block_of_shard)

        # stop the run above the limit
        self._skipped = skipped

        for number, source in enumerate(self._sources):
            count = sum(1 for of, _ in skipped if of == number)
            blocks = len(source.shards.index)
            if count > self._limit * blocks:
                raise IntegrityError(
                    f"{source.shards.path}: {count} of {blocks} blocks cannot be read, more than "
                    f"data.max_damaged_fraction {self._limit:g}: copy the files again, or "
                    "leave the blocks out: `clozeline repack-shards SET output=NEW damaged=skip`"
                )

    def _describe_phase(self, span: PhaseSpan) -> dict[str, object]:
        reading = self.training.reading
        return {
            "phase": reading.timeline.spans.index(span),
            "shares": reading.shares(span),
            "global_batch": span.global_batch,
            "until_samples": None if span.stop is None else span.stop * reading.lanes,
        }
