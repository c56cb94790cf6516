"""The interface of input files that readers use: a `Path`, or a file of a store that looks like one."""

from typing import BinaryIO, Literal, Protocol


class FileFacts(Protocol):
    """Facts of a file."""

    @property
    def st_size(self) -> int:
        """Bytes of the file."""


class InputFile(Protocol):
    """A file that can be read from any position."""

    @property
    def name(self) -> str:
        """Name without the folder."""

    @property
    def suffix(self) -> str:
        """Last suffix of the name, with its dot."""

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file."""

    def stat(self) -> FileFacts:
        """Return the facts of the file."""
