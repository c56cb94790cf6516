"""Documents and inputs that a run skips: the file of `clean.exclude`."""

import hashlib
import io
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import xxhash

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.plan import PlannedRange
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.text.hosts import ascii_host, ascii_url, parent_domains

_PLAIN_HOST: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")
"""A host whose only form is itself; block lists have millions."""
Hashes: TypeAlias = "array[int]"
_INPUT: Final = "input "
_DOCUMENT: Final = "document "
"""Marks of forms that lines name inputs or documents by alone; no host has a blank."""


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
        content = _read(path)
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"clean.exclude: {path}: expected UTF-8, got {error}"
            ) from error
        return cls(path, hashlib.sha256(content).hexdigest())

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, without empty lines and comments."""
        content = _read(self.path)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise StorageError(
                f"clean.exclude: {self.path} changed while this run was working: run the same "
                "command again"
            )

        # not all lines at once, of which block lists have millions
        with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig") as file:
            lines = (part for line in file for part in line.splitlines())
            for number, line in enumerate(lines, start=1):
                if (stripped := line.strip()) and stripped[0] != "#":
                    yield number, stripped

    @cached_property
    def _index(self) -> tuple[Hashes, Hashes]:
        """Sorted hashes of what lines name, and the line of each: 12 bytes for a host."""
        hashes, numbers = array("Q"), array("I")
        for number, line in self.lines():
            for form in (line,) if _PLAIN_HOST.fullmatch(line) else _forms(line):
                hashes.append(_hash(form))
                numbers.append(number)
        order = np.argsort(np.frombuffer(hashes, np.uint64), kind="stable")
        sides = zip((hashes, numbers), (np.uint64, np.uint32), strict=True)
        found, lines = (np.frombuffer(side, kind)[order].tobytes() for side, kind in sides)
        return array("Q", found), array("I", lines)

    def _find(self, kind: str, names: Iterable[str]) -> set[int]:
        """Return the lines that name one of these inputs or documents."""
        hashes, lines = self._index
        found = set[int]()
        for form in (form for name in names for form in (name, kind + name)):
            key = _hash(form)
            at = bisect_left(hashes, key)
            while at < len(hashes) and hashes[at] == key:
                found.add(lines[at])
                at += 1
        return found

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
            folders = (absolute, *absolute.parents)
            names.update(map(str, folders))
            here = Path.cwd()
            names.update(str(each.relative_to(here)) for each in folders if here in each.parents)

        return self._find(_INPUT, names)

    def find_document(self, uid: bytes, url: str | None, host: str | None) -> set[int]:
        """Return the lines that name a document, its URL, its host, or a domain above it."""
        # a word without a dot is not a host, but may be a source
        hosts = (
            name for name in parent_domains(ascii_host(host or "")) if "." in name or ":" in name
        )
        names = (uid.hex(), *([_comparable_url(url)] if url else ()), *hosts)
        return self._find(_DOCUMENT, names)

    def list_unmatched(self, matched: Mapping[str, int]) -> Iterator[str]:
        """Yield the lines that match nothing; `matched` has the numbers of all other lines."""
        return (line for number, line in self.lines() if str(number) not in matched)


def _forms(line: str) -> set[str]:
    """Return what a line names: with a mark, inputs or documents alone.

    Names of sources and files are case-sensitive. Uids consist of letters and digits like hosts,
    and are not case-sensitive either.
    """
    inputs = {line, _comparable_url(line) if "://" in line else _absolute(line)}
    documents = {
        _comparable_url(line),
        *([] if "/" in line else [ascii_host(line.strip("[]"))]),
    }
    alone = ((_INPUT, inputs - documents), (_DOCUMENT, documents - inputs))
    return (inputs & documents) | {mark + form for mark, forms in alone for form in forms}


def _hash(form: str) -> int:
    return xxhash.xxh3_64_intdigest(form.encode(errors="surrogatepass"))


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
