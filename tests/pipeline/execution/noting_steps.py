"""Steps of executors that leave notes in a folder."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from clozeline.memory import memory_share


@dataclass
class Noting:
    """A step that notes its process."""

    folder: Path

    def __call__(self, unit):
        with (self.folder / f"{unit}.started").open("a") as file:
            file.write("x")
        (self.folder / f"{unit}.done").write_text(f"{os.getpid()}")

    def has_result(self, unit):
        return (self.folder / f"{unit}.done").exists()

    def has_started(self, unit):
        return (self.folder / f"{unit}.started").exists() and not self.has_result(unit)

    def fail(self, unit, reason):
        (self.folder / f"{unit}.done").write_text(reason)


@dataclass
class Waiting(Noting):
    """A step whose units wait until so many files with an ending are there."""

    ending: str
    count: int

    def __call__(self, unit):
        (self.folder / f"{os.getpid()}.pid").touch()
        deadline = time.monotonic() + 60
        while len(list(self.folder.glob(f"*.{self.ending}"))) < self.count:
            assert time.monotonic() < deadline, "too few"
            time.sleep(0.01)
        super().__call__(unit)


class LongFirst(Waiting):
    """The same, of the first unit alone."""

    def __call__(self, unit):
        (super() if unit == 0 else super(Waiting, self)).__call__(unit)


class Endless(Noting):
    def __call__(self, unit):
        (self.folder / f"{os.getpid()}.pid").touch()
        signal.pause()


class Reporting(Noting):
    """A step that notes whether its process ignores Ctrl-C."""

    def __call__(self, unit):
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        (self.folder / f"{unit}.ignored").write_text(str(ignored))
        super().__call__(unit)


class SharingMemory(Noting):
    """A step that notes how many bytes of memory are its share."""

    def __call__(self, unit):
        (self.folder / f"{unit}.share").write_text(str(memory_share()))
        super().__call__(unit)
