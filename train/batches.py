"""Global batches one after another from any position on, built ahead where there are threads for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from train.ahead import Ahead
from train.building import Assembly, Builder
from train.collate import Batch
from train.mixture import Timeline
from train.rounds import Rounds
from train.source import Source
from train.workers import Workers

__all__ = ["Batches"]

_BUILT_AHEAD: Final = 2  # portions of batches that wait for the training thread


class Batches:
    """What a stream has under way: rounds that are loaded, and portions of batches that are built.

    Args:
        timeline: which lanes read what.
        sources: all sets.
        assembly: how rows become batches.
        workers: threads that load; None loads and builds in the calling thread.
        prefetch: rounds that are loaded ahead.
    """

    def __init__(
        self,
        timeline: Timeline,
        sources: Sequence[Source],
        assembly: Assembly,
        workers: Workers | None,
        prefetch: int,
    ) -> None:
        self._timeline, self._sources, self._assembly = timeline, sources, assembly
        self._workers, self._prefetch = workers, prefetch
        self._count: int | None = None
        self._rounds: list[Rounds] = []
        self._build: Callable[[], Iterator[list[Batch]]] | None = None
        self._ahead: Ahead[Iterator[list[Batch]]] | None = None
        self._portion: Iterator[list[Batch]] = iter(())
        self._waited = 0.0

    @property
    def wait_seconds(self) -> float:
        """Time that `take` waited for the thread that builds."""
        return self._waited + (self._ahead.wait_seconds if self._ahead else 0.0)

    def take(self, position: int, count: int | None) -> list[Batch]:
        """The next global batch, of `count` lane rows; None: as many as its phase says.

        It begins at `position`, which follows the one before unless `stop` came in between.
        """
        if count != self._count:
            self.stop(keep_rounds=True)
            self._count = count
        batches = next(self._portion, None)
        if batches is None:
            build = self._build or self._start(position)
            self._portion = build()
            batches = next(self._portion)
        return batches

    def stop(self, *, keep_rounds: bool = False) -> None:
        """Forget what was built, and unless the position stays also what was loaded."""
        self._portion, self._build = iter(()), None
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            self._waited += ahead.wait_seconds
        kept = keep_rounds and (ahead is None or ahead.join())
        if not kept:
            for rounds in self._rounds:
                rounds.close()
            self._rounds = []
            if ahead is not None:
                ahead.join()

    def _start(self, position: int) -> Callable[[], Iterator[list[Batch]]]:
        if not self._rounds:
            self._rounds = [Rounds(source, self._workers, self._prefetch) for source in self._sources]
        builder = Builder(self._timeline, self._rounds, self._assembly, position, self._count)
        if self._workers is None:
            self._build = builder
            return builder
        ahead = Ahead(builder, _BUILT_AHEAD)
        self._ahead, self._build = ahead, ahead.get
        return ahead.get
