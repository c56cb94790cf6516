"""Write the folder of a tool: it is published at one moment, complete or not at all.

The files are made in a temporary folder, whose name says which process writes it. So two processes
never write the same files, and the next one knows the remains of a killed one.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.files import (
    owner_of,
    publish_json,
    read_json,
    require_empty,
    sync,
    temporary_path,
    writing,
)

_MOVED: Final = ".moved.json"
"""File, in a temporary folder, with the names that are moved from it to the output."""


@contextmanager
def new_folder(folder: Path, last: str = "") -> Iterator[Path]:
    """Yield a temporary folder, which gets its final name at the end.

    Readers find all of its files, or none. An output that exists, which may be a mounted disk, gets
    the files themselves, the file `last` after all others. Of two processes, the first one that is
    complete is published; a process that comes later is refused.

    Raises:
        ConfigurationError: the folder has files, or another process writes it.
        StorageError: a file cannot be written.
    """
    folder = folder.resolve()  # a link is another name of the folder
    exists = folder.exists()
    missing = [path for path in folder.parents if not path.exists()]
    unfinished = temporary_path((folder if exists else folder.parent) / f".{folder.name}")

    try:
        with writing(folder, unfinished):
            if not missing:
                _remove_remains(folder, unfinished.parent)
            require_empty(folder)
            unfinished.mkdir(parents=True)
            yield unfinished
            for path in (*unfinished.rglob("*"), unfinished):
                sync(path)
            require_empty(folder)  # as it was at the start, unless another process was faster
            if not exists:
                try:
                    unfinished.rename(folder)
                except OSError:
                    require_empty(folder)
                    raise
                return
            paths = sorted(unfinished.iterdir(), key=lambda path: path.name == last)
            publish_json(unfinished / _MOVED, dict.fromkeys(path.name for path in paths))
            for path in paths:
                path.rename(folder / path.name)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(unfinished, ignore_errors=True)
            for path in missing:
                path.rmdir()
        raise
    else:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_remains(folder: Path, place: Path) -> None:
    """Remove what killed processes left of this output; refuse it if a process still writes it."""
    for path in place.glob("*.tmp") if place.is_dir() else ():
        if not path.name.startswith(f".{folder.name}.") or (process := owner_of(path)) is None:
            continue
        if process not in {0, os.getpid()}:
            raise ConfigurationError(
                f"output={folder}: process {process} writes it: wait for it, or choose another "
                f"folder; if that is another program, remove {path}"
            )
        moved = [folder / name for name in read_json(path / _MOVED) or ()]
        for each in (*moved, path):
            shutil.rmtree(each, ignore_errors=True)
            with suppress(OSError):
                each.unlink()
