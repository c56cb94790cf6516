"""Locate the shard sets of a run.

They are where its configuration says, or where `data.shards=` says.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.configuration.paths import as_url, local_path
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import RecordedSet, read_sets


@config_class
class SetPaths:
    """Current paths of the sets that a run reads."""

    shards: Annotated[Path | list[Path] | None, HOME_EXPANDED] = None
    """training sets: MANIFEST, or [MANIFEST, ...] in any order"""
    heldout: Annotated[Path | None, HOME_EXPANDED] = None
    """held-out set"""

    @property
    def sets(self) -> list[Path]:
        """The training sets as a list."""
        return (
            self.shards
            if isinstance(self.shards, list)
            else []
            if self.shards is None
            else [self.shards]
        )


@config_class
class MovedSets:
    """The sets of a run, where they have moved."""

    data: SetPaths = SetPaths()
    """where the run's sets are now, if they were moved"""


def locate_sets(run: Path, data: DataConfig, set_paths: SetPaths) -> DataConfig:
    """Return a run's `data` with the current paths of its sets.

    Sets are recognized by digest.
    """
    if set_paths.heldout is not None:
        data = replace(data, heldout=set_paths.heldout)
    if not set_paths.sets:
        return data
    names = list(dict.fromkeys(path for phase in data.all_phases.values() for path in phase.sets))
    current = _match_by_digest(run, names, read_sets(run), set_paths.sets)

    if data.shards is None:
        phases = [
            replace(phase, shards=[current[path] for path in phase.sets]) for phase in data.phases
        ]
        return replace(data, phases=phases)

    return replace(data, shards=[current[path] for path in names])


def _match_by_digest(
    run: Path, names: Sequence[Path], recorded: Sequence[RecordedSet], paths: Sequence[Path]
) -> dict[Path, Path]:
    paths_by_digest = {open_shards(path).digest: path for path in paths}
    digests = {entry.path: entry.digest for entry in recorded}
    current = {}

    for path in names:
        digest = digests.get(as_url(path) or str(local_path(path).absolute()))
        if digest not in paths_by_digest:
            raise ConfigurationError(
                f"data.shards: {run} was trained on {path} (digest {digest}), which is not among "
                f"those given: {', '.join(map(str, paths))}"
            )

        current[path] = paths_by_digest[digest]

    return current


def open_first_set(run: Path, data: DataConfig) -> ShardSet:
    """Open the first training set of a run; refuse another set that was made at its path."""
    with explain_missing_sets(run, data):
        shards = open_shards(data.first_set, options=data.store)
    if shards.digest not in [entry.digest for entry in read_sets(run)]:
        raise ConfigurationError(
            f"{shards.path}: was made again with other rows since {run} was trained on it: say by "
            "data.shards=MANIFEST where its rows are now, or train again"
        )
    return shards


@contextmanager
def explain_missing_sets(run: Path, data: DataConfig) -> Iterator[None]:
    """Add the run's set paths to any StorageError of the block.

    The message also says how to give the current paths.
    """
    try:
        yield
    except StorageError as error:
        paths = dict.fromkeys(
            str(path) for phase in data.all_phases.values() for path in phase.sets
        )
        raise StorageError(
            f"{error}; {run / 'config.yaml'} names {', '.join(paths)}: if that has moved, say "
            "where it is now by data.shards=MANIFEST, several as data.shards=[MANIFEST, MANIFEST], "
            "or in that file"
        ) from error
