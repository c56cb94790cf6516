"""The shard sets of a run, where its configuration names them or where `data.shards=` says that they are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.store import as_url, local_path
from clozeline.tools.settings import settings_of
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import SETS_FILE, RecordedSet, read_sets

SET_PATHS_HELP: Final = (
    "where the run's sets are now, if they were moved: data.shards=MANIFEST, or [MANIFEST, ...], and data.heldout="
)
_KEYS: Final = ("data.shards=", "data.heldout=")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SetPaths:
    """Present paths of the sets that a run reads."""

    shards: Annotated[Path | list[Path] | None, HOME_EXPANDED] = None
    """training sets, in any order"""
    heldout: Annotated[Path | None, HOME_EXPANDED] = None
    """held-out set"""

    @property
    def sets(self) -> list[Path]:
        """The training sets as a list."""
        return self.shards if isinstance(self.shards, list) else [] if self.shards is None else [self.shards]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class _Words:
    data: SetPaths = SetPaths()


def split_set_paths(words: Sequence[str]) -> tuple[SetPaths, list[str]]:
    """Return what the words of a command line say about the sets of a run, and the other words.

    Raises:
        ConfigurationError: a value is no path.
    """
    mine = [word for word in words if word.startswith(_KEYS)]
    return settings_of(_Words, mine).data, [word for word in words if word not in mine]


def locate_sets(run: Path, data: DataConfig, given: SetPaths) -> DataConfig:
    """Return the data of a run's configuration with the present paths of its sets.

    Sets are recognized by their digests; those of a run that recorded none are taken in the order of the phases.

    Raises:
        ConfigurationError: a set that the run reads is not among those given.
        StorageError: one of those given is not there.
    """
    if given.heldout is not None:
        data = replace(data, heldout=given.heldout)
    if not given.sets:
        return data
    names = list(dict.fromkeys(path for phase in data.all_phases.values() for path in phase.sets))
    if (run / SETS_FILE).is_file():
        now = _by_digest(run, names, read_sets(run, data), given.sets)
    elif len(names) == len(given.sets):
        now = dict(zip(names, given.sets, strict=True))
    else:
        raise ConfigurationError(f"data.shards: {run} reads {len(names)} sets, got {len(given.sets)}: give all of them")
    if data.shards is None:
        phases = [replace(phase, shards=[now[path] for path in phase.sets]) for phase in data.phases]
        return replace(data, phases=phases)
    return replace(data, shards=[now[path] for path in names])


def _by_digest(
    run: Path, names: Sequence[Path], recorded: Sequence[RecordedSet], given: Sequence[Path]
) -> dict[Path, Path]:
    """Return the present path of each set by the path that the configuration has."""
    found = {open_shards(path).digest: path for path in given}
    wanted = {one.path: one for one in recorded}
    now = {}
    for path in names:
        one = wanted.get(as_url(path) or str(local_path(path).absolute()))
        if one is None or one.digest not in found:
            named = str(path) if one is None else f"{one.name} (digest {one.digest[:16]}), read at {one.path},"
            have = ", ".join(f"{there} ({digest[:16]})" for digest, there in found.items())
            raise ConfigurationError(f"data.shards: {run} reads {named} and it is none of those given: {have}")
        now[path] = found[one.digest]
    return now


def described_sets(run: Path, data: DataConfig, given: SetPaths | None) -> tuple[RecordedSet, ...]:
    """Return what a run says of its training sets; those of a run that says nothing are read.

    Raises:
        StorageError: one that is read is not where `data` or `given` says; the message says how to give its path.
        ClozelineError: what is said is damaged, or a set is.
    """
    data = locate_sets(run, data, given or SetPaths())
    with missing_sets(run, data):
        return read_sets(run, data)


def open_first_set(run: Path, data: DataConfig) -> ShardSet:
    """Open the first training set of a run."""
    with missing_sets(run, data):
        return open_shards(data.first_set, options=data.store)


@contextmanager
def missing_sets(run: Path, data: DataConfig) -> Iterator[None]:
    """Name the sets of a run, and how to give their present paths, where one cannot be opened.

    Raises:
        StorageError: for any StorageError of the block.
    """
    try:
        yield
    except StorageError as error:
        paths = dict.fromkeys(str(path) for phase in data.all_phases.values() for path in phase.sets)
        raise StorageError(
            f"{error}; {run / 'config.yaml'} names {', '.join(paths)}: if that has moved, say where it is now by "
            "data.shards=MANIFEST, several as data.shards=[MANIFEST, MANIFEST], or in that file"
        ) from error
