"""Copy committed checkpoints to a second location, a folder or an fsspec URL, and fetch the newest one from there.

A thread copies: parts first, each read back and compared with the hash in the index, then the index, then `latest`. So
a copy without an index is incomplete, and is never mistaken for a complete one. A copy that fails is reported, and
training continues.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import xxhash

from clozeline.configuration.redaction import remember
from clozeline.errors import CheckpointError, ConfigurationError, NewerFormatError, StorageError
from clozeline.pipeline.shards.store import as_url, local_path
from clozeline.train.checkpoint.find_checkpoint import LATEST
from clozeline.train.checkpoint.format import INDEX, Index, checkpoint_names, steps_in
from clozeline.train.checkpoint.part_reader import check_files
from clozeline.train.checkpoint.retention import HIDDEN

_CHUNK: Final = 1 << 20
"""Bytes read at once."""
_BEAT_S: Final = 10.0
"""Seconds between two signs of life while a copy is awaited."""


class CheckpointCopies:
    """The second location of a run's checkpoints; only rank 0 uses it."""

    def __init__(self, place: Path, report: Callable[..., None]) -> None:
        self.url = as_url(place) or str(local_path(place).absolute())
        remember({"url": self.url})
        self._report = report
        self._writer = ThreadPoolExecutor(1, "checkpoint-copy")
        self._jobs: list[tuple[Path, Future[None]]] = []
        """Copies that are not reported yet, oldest first."""
        self._failures = 0
        self._verified: set[tuple[str, str]] = set()
        """Checkpoint and part of what was read back."""
        self._kept: set[str] = set()
        """Names of the checkpoints that were in the run directory at the last copy."""

    def start(self, path: Path) -> None:
        """Copy a committed checkpoint in the background; those that still wait for their turn give way to it."""
        self._jobs = [(before, job) for before, job in self._jobs if not job.cancel()]
        self._jobs.append((path, self._writer.submit(self._copy, path)))

    def tell(self) -> None:
        """Report the copies that have ended."""
        ended = [(path, job) for path, job in self._jobs if job.done()]
        self._jobs = [(path, job) for path, job in self._jobs if not job.done()]
        for path, job in ended:
            error = job.exception()
            self._failures = 0 if error is None else self._failures + 1
            if error is None:
                self._report("copy", checkpoint=path.name, place=self.url)
            else:
                failed = {"error": str(error) or type(error).__name__, "failures": self._failures}
                self._report("copy_failed", checkpoint=path.name, place=self.url, **failed)

    def finish(self, beat: Callable[[], None]) -> None:
        """Wait for all copies and report them; `beat` is called every few seconds."""
        while self._jobs:
            wait_for([job for _, job in self._jobs], timeout=_BEAT_S)
            beat()
            self.tell()

    def forget(self, name: str) -> None:
        """Forget what was copied of a checkpoint that is removed: its step may be saved again, with other content."""
        self._verified = {pair for pair in self._verified if pair[0] != name}

    def fetch(self, directory: Path) -> str | None:
        """Fetch the newest complete copy into a directory of checkpoints; return its name, None if there is none.

        Raises:
            StorageError: the location cannot be read, so it is unknown whether it holds a checkpoint.
        """
        with self._reading() as (system, base, names):
            for name in reversed(names):
                if not system.exists(f"{base}/{name}/{INDEX}"):
                    self._report("copy_refused", checkpoint=name, place=self.url, reason="it has no index")
                    continue
                try:
                    _download(system, f"{base}/{name}", directory, name)
                except (CheckpointError, FileNotFoundError) as error:
                    self._report("copy_refused", checkpoint=name, place=self.url, reason=str(error))
                    continue
                self._report("copy_fetched", checkpoint=name, place=self.url)
                return name
        return None

    @contextmanager
    def _reading(self) -> Iterator[tuple[Any, str, list[str]]]:
        """Give the file system, the folder and the names of its checkpoints, complete or not."""
        try:
            system, base = self._open()
            listed = system.ls(base, detail=False) if system.isdir(base) else []
            names = {str(path).rstrip("/").rpartition("/")[2] for path in listed}
            yield system, base, checkpoint_names(names)
        except NewerFormatError:
            raise
        except Exception as error:  # stores raise their own
            how = "make it readable, or leave the key out to start without it"
            raise StorageError(f"checkpoint.copy_to: {self.url} cannot be read ({error}): {how}") from error

    def _open(self) -> tuple[Any, str]:
        import fsspec  # each store has a package of its own, which takes time to import

        system, base = fsspec.core.url_to_fs(self.url)
        return system, base.rstrip("/")

    def _copy(self, path: Path) -> None:
        system, base = self._open()
        system.invalidate_cache()
        index, target = Index.read(path), f"{base}/{path.name}"
        system.makedirs(target, exist_ok=True)
        for name, record in index.files.items():
            if (path.name, name) in self._verified:
                continue
            system.put_file(str(path / name), f"{target}/{name}")
            if (found := _hash(system, f"{target}/{name}")) != record.xxh3_128:
                raise CheckpointError(f"{target}/{name}: expected xxh3-128 {record.xxh3_128}, got {found}")
            self._verified.add((path.name, name))
        last = {f"{target}/{INDEX}": (path / INDEX).read_bytes(), f"{base}/{LATEST}": path.name.encode()}
        for file, content in last.items():
            system.pipe_file(file, content)
            if system.cat_file(file) != content:
                raise CheckpointError(f"{file}: differs from what was written")
        # remove the copies of what the run directory has removed since
        here = {one.name for one in steps_in(path.parent)}
        for name in self._kept - here - {path.name}:
            if system.exists(f"{base}/{name}"):
                system.rm_file(f"{base}/{name}/{INDEX}")  # first: a kill leaves no copy that looks complete
                system.rm(f"{base}/{name}", recursive=True)
        self._kept = here


def refuse_copies(place: Path) -> None:
    """Refuse a location that holds checkpoints, complete or not; a run that starts anew would replace them.

    Raises:
        ConfigurationError: it holds some.
        StorageError: it cannot be read.
    """
    copies = CheckpointCopies(place, lambda *_, **__: None)
    with copies._reading() as (_, _, names):
        pass
    if names:
        raise ConfigurationError(
            f"checkpoint.copy_to: resume=never: expected a location without checkpoints, got {copies.url} with "
            f"{', '.join(names[-4:])}: choose another location, remove them, or go on from them with resume=auto"
        )


def _download(system: Any, source: str, directory: Path, name: str) -> None:
    hidden = directory / f"{HIDDEN}{name}"
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    try:
        (hidden / INDEX).write_bytes(system.cat_file(f"{source}/{INDEX}"))
        files = Index.read(hidden).files
        for file in files:
            system.get_file(f"{source}/{file}", str(hidden / file))
        check_files(hidden, files, hashes=True, only=files)
        hidden.rename(directory / name)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _hash(system: Any, path: str) -> str:
    digest = xxhash.xxh3_128()
    with system.open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
