"""Exchange data between two passes: each unit of the first writes a piece for each unit of the second.

If many units write pieces, a pass in between bundles their files, so the second pass opens one file for 256 units.
With n units on both sides that makes 2 n + n² / 256 opens instead of n².
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from clozeline.pipeline.execution.pieces import PieceFile, PieceWriter
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output

# Files that one bundle holds, which is also the most that a process has open.
_GROUP: Final = 256
# Pairs of files and destinations from which files are bundled.
_FEWEST: Final = 8_192


@dataclass(frozen=True, slots=True)
class Exchange:
    """The files of an exchange.

    A unit of the first pass writes its pieces by destination, 0 to `destinations` - 1, and may do so several times.
    """

    kind: str  # name of its folder
    sources: int  # units of the first pass
    destinations: int  # units of the second pass

    def file(self, source: int) -> str:
        """Return the name of a source's file, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.kind}/{source:06d}.pieces"

    def bundle(self, number: int) -> str:
        """Return the name of a bundle."""
        return f"{TEMPORARY}/{self.kind}-bundles/{number:06d}.pieces"

    @property
    def bundles(self) -> int:
        """Number of bundles, 0 where the destinations open the sources' files themselves, fewer than 8,192 times."""
        return -(-self.sources // _GROUP) if self.sources * self.destinations >= _FEWEST else 0

    @property
    def pieces(self) -> int:
        """Number of pieces, empty ones included, that a source writes once."""
        return self.sources * self.destinations

    @property
    def opens(self) -> int:
        """Number of times that a file of pieces is opened to be written or read, once by each destination."""
        bundled = self.sources + self.bundles if self.bundles else 0
        return self.sources + bundled + (self.bundles or self.sources) * self.destinations

    def passes(self) -> list[Pass[Any]]:
        """Return the pass that bundles the files, or none."""
        return [Bundles(self)] if self.bundles else []

    def read(self, folder: Path, destination: int) -> Iterator[bytes]:
        """Yield the pieces for a destination, in the order of the sources."""
        numbered, name = (range(self.bundles), self.bundle) if self.bundles else (range(self.sources), self.file)
        for number in numbered:
            with PieceFile(folder, name(number)) as file:
                yield from self._pieces(file, destination)

    def _pieces(self, file: PieceFile, destination: int) -> Iterator[bytes]:
        for number in range(destination, len(file), self.destinations):
            yield file.piece(number)

    def merge(self, folder: Path, bundle: int, writer: PieceWriter) -> None:
        """Write a bundle from the files of its members."""
        with ExitStack() as stack:
            members = range(bundle * _GROUP, min(self.sources, (bundle + 1) * _GROUP))
            files: Sequence[PieceFile] = [stack.enter_context(PieceFile(folder, self.file(each))) for each in members]
            for destination in range(self.destinations):
                writer.add(piece for file in files for piece in self._pieces(file, destination))


class Bundles(Pass[Counts]):
    """Bundle the files of 256 units of the previous pass, ordered by destination."""

    intermediate: ClassVar[bool] = True

    def __init__(self, exchange: Exchange) -> None:
        self.exchange, self.name, self.units = exchange, f"{exchange.kind}-bundles", exchange.bundles

    def run(self, unit: int, output: Output) -> Counts:
        relative = self.exchange.bundle(unit)
        with output.file(relative) as path, path.open("wb") as sink:
            writer = PieceWriter(sink, relative)
            self.exchange.merge(output.folder, unit, writer)
            writer.close()
        return {}
