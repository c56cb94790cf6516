"""Write the files of a new shard set or export: all are published, or none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.files import sweep, sync, writing
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards.store import as_url, local_path


def local_folder(path: Path) -> Path:
    """Return the local path of a path or `file:` URL; refuse the URL of a remote store."""
    url = as_url(path)
    if url is not None:
        raise ConfigurationError(f"{url}: expected a local folder; copy the set here first")
    return local_path(path)


@contextmanager
def new_files(folder: Path) -> Iterator[Output]:
    """Publish files in a folder, all or none.

    An error or interrupt removes the files published so far.

    A killed process leaves files, but never the one that is written last; the next run replaces
    them.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"output={folder}: expected a folder, got a file")
    if (folder / "manifest.json").exists():
        raise ConfigurationError(
            f"output={folder}: holds a shard set already; choose another folder"
        )

    target = Output(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    if not missing:
        sweep(folder)
    try:
        yield target
    except BaseException:
        with suppress(OSError):
            for name in target.files:
                (folder / name).unlink(missing_ok=True)
            for path in [*{(folder / name).parent for name in target.files} - {folder}, *missing]:
                path.rmdir()
        raise


@contextmanager
def new_folder(folder: Path, last: str = "") -> Iterator[Path]:
    """Yield a temporary folder, which gets its final name at the end.

    Readers find all of its files, or none. An output that exists, which may be a mounted disk, gets
    the files themselves, the file `last` after all others.

    Raises:
        ConfigurationError: the folder has files already: readers of folders would take them for
            rows.
        StorageError: a file cannot be written.
    """
    folder = local_folder(folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"output={folder}: holds files already; choose a new folder")
    exists = folder.exists()
    missing = [path for path in folder.parents if not path.exists()]
    unfinished = folder / ".partial" if exists else folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed

    try:
        with writing(folder, unfinished):
            unfinished.mkdir(parents=True)
            yield unfinished
            for path in (*unfinished.rglob("*"), unfinished):
                sync(path)
            if not exists:
                unfinished.replace(folder)
            for path in sorted(unfinished.glob("*"), key=lambda path: path.name == last):
                path.rename(folder / path.name)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        with suppress(OSError):
            for path in missing:
                path.rmdir()
        raise
    else:
        shutil.rmtree(unfinished, ignore_errors=True)
