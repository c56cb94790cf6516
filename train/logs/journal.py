"""Write the records of a run: metrics.jsonl, events.jsonl, status.json, TensorBoard, trackers.

Only rank 0 writes. If the run directory cannot be written, one warning is printed and training
continues.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.redaction import redact
from clozeline.errors import message_text
from clozeline.files import open_unlinked
from clozeline.reporting import Reporting
from clozeline.run_status import StatusFile
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs.json_lines import last_lines
from clozeline.train.logs.trackers import TensorBoard, Tracker, WeightsAndBiases

_BOARD: Final = "TensorBoard"


class Journal:
    """The files in a run directory that record its steps and events."""

    def __init__(self, directory: Path, config: LogConfig, rank: int) -> None:
        self.directory = directory
        self.config = config
        self._writes = rank == 0
        self._trackers: dict[str, Tracker] = {}
        """TensorBoard and the configured service by name, without those that failed."""
        self._failed = False
        self._reports = Reporting()

        # events and status
        self._held: list[tuple[str, dict[str, object]]] | None = []
        """Events before `begin`, with their fields; None afterwards."""
        self._epoch = time.time() - time.monotonic()
        """Start of the monotonic clock, in seconds since 1970."""
        self._status: StatusFile | None = None
        """None before `begin`, and on the other ranks."""

    def now(self) -> float:
        """Return the time in seconds since 1970, unaffected by later changes of the clock."""
        return self._epoch + time.monotonic()

    def begin(self, step: int, checkpoint: str | None = None, *, evaluated: bool = False) -> None:
        """Start to write, once the start has been checked.

        Metrics after `step` are removed, and the evaluation of that step unless the state is
        `evaluated`: a resumed run writes them again. Earlier lines are not read.
        """
        if not self._writes:
            return
        self._truncate_metrics(step, evaluated)
        open_unlinked(self.directory / "events.jsonl", "ab").close()  # an error ends the start
        events = self._held or []
        self._held = None
        for event, fields in events:
            self._append("events.jsonl", {"event": event, **fields})
        guard = partial(self._reports, "records in the run directory")
        self._status = StatusFile(self.directory, guard)
        self.status("running", step=step, checkpoint=checkpoint)
        self._open_board(step)

    def rewind(self, step: int, *, evaluated: bool = False) -> None:
        """Remove the metrics after `step`, to which the run goes back, as `begin` does."""
        if not self._writes:
            return
        with self._reports("records in the run directory"):
            self._truncate_metrics(step, evaluated)
        if (board := self._trackers.pop(_BOARD, None)) is not None:
            board.end(failed=False)
            self._open_board(step)

    def _open_board(self, step: int) -> None:
        if self.config.tensorboard:
            with self._reports(_BOARD):
                self._trackers[_BOARD] = TensorBoard(self.directory / "tensorboard", step)

    def _truncate_metrics(self, step: int, evaluated: bool) -> None:
        """Remove the metrics after `step`, and lines at the end that cannot be read."""
        # find the last record to keep, from the end
        path = self.directory / "metrics.jsonl"
        end = 0

        for line in last_lines(path):
            # a line of events.jsonl in this file is not the record of a step
            recorded = (
                None if line.record is None or "event" in line.record else line.record.get("step")
            )
            again = recorded == step and not evaluated and "heldout" in (line.record or {})
            if isinstance(recorded, int) and recorded <= step and not again:
                end = line.stop
                break

        # end the file there
        with open_unlinked(path, "a+b") as file:
            file.truncate(end)
            file.seek(max(0, end - 1))
            if file.read() not in (b"", b"\n"):  # a kill cut off the newline
                file.write(b"\n")

    def track(self, config: Mapping[str, object]) -> None:
        """Start or continue a run at the configured tracker.

        `config` has dotted keys and no secrets.
        """
        if not self._writes or (name := self.config.tracker) is None:
            return
        with self._reports(part := f"log.tracker: {name}"):
            self._trackers[part] = WeightsAndBiases(self.directory, config)

    def step(self, record: Mapping[str, Any]) -> None:
        """Write the record of a step or an evaluation; numbers that are not finite become null."""
        if not self._writes:
            return
        written = _finite(record)
        self._append("metrics.jsonl", written)
        figures = numbers(written) if self._trackers else {}
        for name in tuple(self._trackers):
            tracker = self._trackers.pop(name)
            with self._reports(name):
                tracker.log(figures, record["step"])
                self._trackers[name] = tracker

    def event(self, event: str, **fields: object) -> None:
        """Write an event; events before `begin` are written then."""
        record = {"time": self.now(), **redact(_finite(fields))}
        if self._held is not None:
            self._held.append((event, record))
        elif self._writes:
            self._append("events.jsonl", {"event": event, **record})

    def status(self, state: str, **fields: object) -> None:
        """Replace status.json, for supervisors that need more than the launcher's exit code."""
        if self._status is not None:
            self._status.write(state, **_finite(fields))

    def progress(self, **fields: object) -> None:
        """Note progress, with fields that the next renewal of status.json writes."""
        if self._status is not None:
            self._status.note(**_finite(fields))

    def count(self, **amounts: int) -> None:
        """Add to the counters of metrics.prom."""
        if self._status is not None:
            totals = Counter(self._status.totals)
            totals.update(amounts)
            self._status.note(totals=totals)

    def renewed(self) -> AbstractContextManager[None]:
        """Renew status.json every second during the block."""
        return nullcontext() if self._status is None else self._status.renewed()

    def fail(self, error: BaseException) -> None:
        """Write why the run failed."""
        # imports torch, which readers of the files do not need
        from clozeline.train.distributed.failures import explain

        exit_code, message = explain(error)
        if exit_code == 1:  # stderr has the traceback
            message = f"{type(error).__name__}: {error}"
        message = message_text(message)
        self._failed = True
        self.event("failed", error=message, exit_code=exit_code)
        self.status("failed", error=message, exit_code=exit_code)

    def close(self) -> None:
        """Flush and close."""
        while self._trackers:
            name, tracker = self._trackers.popitem()
            with self._reports(name):
                tracker.end(failed=self._failed)

    def _append(self, name: str, record: Mapping[str, Any]) -> None:
        with (
            self._reports("records in the run directory"),
            open_unlinked(self.directory / name, "ab") as file,
        ):
            file.write(f"{json.dumps(add_checksum(record))}\n".encode())


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return all numbers of a nested record, with `/` between the keys."""
    flat: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = value
    return flat


def _finite(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
