"""Write files of an export to a store: each is made on this disk, copied, compared by size and removed here."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.shards.store import RemoteStore, as_url, local_path
from clozeline.tools.shards.rewriting.shard_folder import new_files


class Target(Protocol):
    """A new folder, on a disk or in a store."""

    def file(self, relative: str) -> AbstractContextManager[Path]:
        """Yield the local path where a file is to be written; it is published at the end of the block."""


class RemoteFolder:
    """A folder of a store; `urls` are the files that were written."""

    def __init__(self, url: str, store: RemoteStore) -> None:
        self.url, self.store = url.removesuffix("/"), store
        self.urls: list[str] = []

    @contextmanager
    def file(self, relative: str) -> Iterator[Path]:
        """Yield a temporary path and copy its file to the store, with retries."""
        with tempfile.TemporaryDirectory(prefix="clozeline-") as folder:
            path = Path(folder) / Path(relative).name
            yield path
            self.urls.append(f"{self.url}/{relative}")
            self.store.write(self.urls[-1], path)


@contextmanager
def new_target(folder: Path) -> Iterator[Target]:
    """Publish files in a folder or below a URL, all or none: an error removes the files published so far.

    Raises:
        ConfigurationError: the folder of the store holds files already, or takes none.
    """
    if (url := as_url(folder)) is None:
        with new_files(local_path(folder)) as output:
            yield output
        return
    target = RemoteFolder(url, RemoteStore(url, StoreOptions()))
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
