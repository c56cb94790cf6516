"""Find input files in stores: a URL names one file, or a pattern where the store can list."""

from collections.abc import Iterator
from glob import has_magic
from itertools import takewhile

from clozeline.configuration.redaction import remember
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.remote_file import (
    RemoteFile,
    file_name,
    is_web_address,
    observe,
    open_store,
    split_url,
)
from clozeline.pipeline.recipe import InputEntry, InputStore


def remote_files(url: str, entry: InputEntry) -> Iterator[tuple[str, RemoteFile]]:
    """Yield name and file of what a URL names; the name is the path below the folder before the first wildcard.

    Raises:
        ConfigurationError: no file matches, the store cannot list, or the scheme needs a package.
        StorageError: the file does not exist, access is denied, or the store fails.
    """
    options = entry.store or InputStore()
    remember({"url": url, "fsspec": options.fsspec})
    path = url.partition("?")[0] if is_web_address(url) else url
    if not has_magic(path):
        base, name = split_url(url)
        if not file_name(url):
            raise ConfigurationError(f"input {url}: expected a file or a pattern, got a folder; write {url}**/*.jsonl")
        facts = observe(open_store(base, options), name)
        yield file_name(url), RemoteFile(url, facts.size, facts.version, options)
        return
    parts = path.split("/")
    root = "/".join(takewhile(lambda part: not has_magic(part), parts[:-1]))
    store = open_store(root, options)
    matches = store.matches(path[len(root) + 1 :])
    names = [name for name in sorted(matches) if not any(part.startswith(".") for part in name.split("/"))]
    if not names:
        raise ConfigurationError(f"input {url}: no file matches this pattern")
    for name in names:
        facts = matches[name] if matches[name].version else observe(store, name)
        yield name, RemoteFile(store.url(name), facts.size, facts.version, options)
