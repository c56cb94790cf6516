"""Documents and inputs that a run skips: the file of `clean.exclude`."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.plan import PlannedRange
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.text.hosts import ascii_host, ascii_url, parent_domains


@dataclass(frozen=True)
class Exclusion:
    """The lines of a file, each of which names a document, host, source or input.

    It is pickled without its lines.
    """

    path: Path = field(compare=False)
    sha256: str
    """hash of the file, which is part of the key of the stage"""

    @classmethod
    def open(cls, path: Path) -> "Exclusion":
        """Return the exclusion with the hash of its file; ConfigurationError if unreadable."""
        exclusion = cls(path, hashlib.sha256(_read(path)).hexdigest())
        exclusion.lines()
        return exclusion

    def lines(self) -> dict[int, str]:
        """Return the lines by number; empty lines and comments have no entry."""
        content = _read(self.path)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise StorageError(
                f"clean.exclude: {self.path} changed while this run was working: run the same "
                "command again"
            )

        try:
            lines = enumerate(content.decode("utf-8-sig").splitlines(), start=1)
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"clean.exclude: {self.path}: expected UTF-8, got {error}"
            ) from error

        return {
            number: stripped
            for number, line in lines
            if (stripped := line.strip()) and stripped[0] != "#"
        }

    @cached_property
    def _inputs(self) -> Mapping[str, list[int]]:
        """Line numbers by the names of sources and files, which are case-sensitive."""
        return self._index_lines(
            lambda line: {line, _comparable_url(line) if "://" in line else _absolute(line)}
        )

    @cached_property
    def _documents(self) -> Mapping[str, list[int]]:
        """Line numbers by uids, hosts in lower case, and URLs."""
        # uids consist of letters and digits like hosts, and are not case-sensitive either
        return self._index_lines(
            lambda line: {
                _comparable_url(line),
                *([] if "/" in line else [ascii_host(line.strip("[]"))]),
            }
        )

    def _index_lines(self, forms: Callable[[str], set[str]]) -> Mapping[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, line in self.lines().items():
            for form in forms(line):
                numbers.setdefault(form, []).append(number)
        return numbers

    def find_input(self, planned: PlannedRange) -> set[int]:
        """Return the lines that name an input: its source, its file, or a folder above it."""
        names = {
            planned.source_group,
            planned.source,
            str(planned.path),
            planned.source.rpartition("/")[2],
        }
        if isinstance(planned.path, RemoteFile):
            names.add(_comparable_url(planned.path.url))
        if isinstance(planned.path, Path):
            absolute = Path(_absolute(str(planned.path)))
            names |= {str(absolute), *map(str, absolute.parents)}

        return {number for name in names for number in self._inputs.get(name, ())}

    def find_document(self, uid: bytes, url: str | None, host: str | None) -> set[int]:
        """Return the lines that name a document, its URL, its host, or a domain above it."""
        # a word without a dot is not a host, but may be a source
        hosts = (
            name for name in parent_domains(ascii_host(host or "")) if "." in name or ":" in name
        )
        names = (uid.hex(), *([_comparable_url(url)] if url else ()), *hosts)
        return {number for name in names for number in self._documents.get(name, ())}

    def list_unmatched(self, matched: Mapping[str, int]) -> Iterator[str]:
        """Yield the lines that match nothing; `matched` has the numbers of all other lines."""
        return (line for number, line in self.lines().items() if str(number) not in matched)


def _comparable_url(url: str) -> str:
    """Return a URL with scheme and host in lower case; its path stays unchanged."""
    scheme, mark, rest = ascii_url(url).partition("://")
    return f"{scheme.lower()}{mark}{rest}" if mark else scheme


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"clean.exclude: {path}: cannot be read ({error.strerror}); give the path of a file"
        ) from error
