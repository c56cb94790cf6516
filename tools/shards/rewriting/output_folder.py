"""Write the files of a new shard set or export, on a disk or in a store: all are published, or none."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import sweep
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards.store import RemoteStore, as_url, local_path

_WRITTEN_LAST: Final = ("manifest.json", "export.json")
"""a folder with one of these files is finished"""


def local_folder(path: Path) -> Path:
    """Return the local path of a path or `file:` URL; refuse the URL of a remote store."""
    url = as_url(path)
    if url is not None:
        raise ConfigurationError(f"{url}: expected a local folder; copy the set here first")
    return local_path(path)


@contextmanager
def new_files(folder: Path) -> Iterator[Output]:
    """Publish files in a folder, all or none: an error or interrupt removes the files published so far.

    A killed process leaves files, but never the one that is written last; the next run replaces them.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"output={folder}: expected a folder, got a file")
    for last in _WRITTEN_LAST:
        if (folder / last).exists():
            what = "an export" if last == "export.json" else "a shard set"
            raise ConfigurationError(f"output={folder}: holds {what} already; choose another folder")
    target, missing = Output(folder), [path for path in (folder, *folder.parents) if not path.exists()]
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


class RemoteFolder:
    """A folder of a store; `urls` are the files that were written."""

    def __init__(self, url: str) -> None:
        self.url, self.store = url.removesuffix("/"), RemoteStore(url, StoreOptions())
        self.urls: list[str] = []

    @contextmanager
    def file(self, relative: str) -> Iterator[Path]:
        """Yield a temporary path on this disk, and copy its file to the store, with retries."""
        with tempfile.TemporaryDirectory(prefix="clozeline-") as folder:
            path = Path(folder) / Path(relative).name
            yield path
            self.urls.append(f"{self.url}/{relative}")
            self.store.write(self.urls[-1], path)


@contextmanager
def new_target(folder: Path) -> Iterator[Output | RemoteFolder]:
    """Publish files in a folder or below a URL, all or none: an error removes the files published so far.

    Raises:
        ConfigurationError: the folder of the store holds files already, or takes none.
    """
    if (url := as_url(folder)) is None:
        with new_files(local_path(folder)) as output:
            yield output
        return
    target = RemoteFolder(url)
    if (there := target.store.sizes(url, 0)) is None:
        raise ConfigurationError(f"{url}: a web server takes no files; give the URL of a store, or a local folder")
    if there:
        raise ConfigurationError(f"output {url}: holds files already; choose another folder of the store")
    try:
        yield target
    except BaseException:
        for written in target.urls:
            with suppress(OSError, StorageError):
                target.store.remove(written)
        raise
