"""Records of a run: metrics.jsonl, events.jsonl, status.json and TensorBoard files.

Only rank 0 writes. If the run directory cannot be written, one warning is printed and training continues.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from pipeline.files import replacing
from train.config import LogConfig

__all__ = ["Journal", "numbers", "read_lines", "resident_bytes"]


class Journal:
    """The files of a run directory that record its steps and events.

    Args:
        directory: the run directory.
        config: what to write.
        rank: only rank 0 writes.
    """

    def __init__(self, directory: Path, config: LogConfig, rank: int) -> None:
        self.directory = directory
        self.config = config
        self._writes = rank == 0
        self._board: Any = None
        self._warned = False
        self._last: int | None = None
        self._status: dict[str, Any] = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}

    def begin(self, step: int) -> None:
        """Start after `step`: cut off later metrics, which a resumed run writes again."""
        if not self._writes:
            return
        path = self.directory / "metrics.jsonl"
        kept = [line for line in read_lines(path) if line["step"] <= step]
        with replacing(path) as temporary:
            temporary.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")
        self._last = kept[-1]["step"] if kept else None
        if self.config.tensorboard:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(str(self.directory / "tensorboard"), purge_step=step + 1)

    def step(self, record: Mapping[str, Any]) -> None:
        """Write the object of a step; a number that is not finite becomes null."""
        if self._writes:
            self._last = record["step"] if self._append("metrics.jsonl", _finite(record)) else None
            self._draw(record["step"], record)

    def extend(self, record: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        """Add fields to the object of a step if that was the last one written, else write `record` with them."""
        if not self._writes:
            return
        if record["step"] != self._last:
            self.step({**record, **fields})
            return
        self._append("metrics.jsonl", _finite(fields), to_last=True)
        self._draw(record["step"], fields)

    def event(self, event: str, **fields: Any) -> None:
        """Write an event: start, resume, save, skip, stop and others."""
        if self._writes:
            self._append("events.jsonl", {"event": event, "time": time.time(), **_finite(fields)})

    def status(self, state: str, **fields: Any) -> None:
        """Replace status.json, which a supervisor can read where the exit code of the launcher is not enough."""
        if not self._writes:
            return
        self._status |= {"state": state, "time": time.time(), **_finite(fields)}
        try:
            with replacing(self.directory / "status.json", durable=False) as temporary:
                temporary.write_text(json.dumps(self._status, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            self._warn(error)

    def failed(self, error: Exception) -> None:
        """Write why the run failed; an error without an exit code counts as 1."""
        exit_code = getattr(error, "exit_code", 1)
        self.event("failed", error=str(error), exit_code=exit_code)
        self.status("failed", error=str(error), exit_code=exit_code)

    def close(self) -> None:
        """Flush what is buffered."""
        if self._board is not None:
            self._board.close()
            self._board = None

    def _append(self, name: str, record: Mapping[str, Any], *, to_last: bool = False) -> bool:
        """Append an object, or its fields to the last object of the file; return whether that worked."""
        text = json.dumps(record) + "\n"
        try:
            with (self.directory / name).open("r+b" if to_last else "ab") as file:
                if to_last:
                    file.seek(-len("}\n"), os.SEEK_END)
                    text = f", {text[1:]}"
                file.write(text.encode())
        except OSError as error:
            self._warn(error)
            return False
        return True

    def _draw(self, step: int, record: Mapping[str, Any]) -> None:
        if self._board is not None:
            for tag, value in numbers(_finite(record)).items():
                self._board.add_scalar(tag, value, step)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            sys.stderr.write(
                f"{self.directory}: metrics cannot be written ({error}); training continues without them\n"
            )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON lines file, without torn lines; empty where the file is missing."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return all numbers of a nested record, with `/` between the keys."""
    found: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{prefix}{key}"] = value
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)
