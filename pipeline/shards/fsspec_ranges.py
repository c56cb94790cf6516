"""Read byte ranges and list objects by fsspec, whose packages for each type of store are imported on first use."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards.object_facts import ObjectFacts, facts_of

_PACKAGES: Final = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
    "hf": "huggingface_hub", "oss": "ossfs", "oci": "ocifs", "sftp": "paramiko", "ssh": "paramiko",
    "smb": "smbprotocol", "webhdfs": "requests", "gdrive": "gdrivefs", "dropbox": "dropboxdrivefs",
}  # fmt: skip


class FsspecRanges:
    """Reader of ranges of one store.

    Raises:
        ConfigurationError: if the scheme is unknown, its package is missing, or its options are wrong.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import fsspec

        try:
            self._system, _ = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            scheme = url.partition(":")[0].lower()
            raise ConfigurationError(
                f"{url}: no reader for this kind of store: {error}: "
                f"pip install {_PACKAGES.get(scheme, f'the package of fsspec for {scheme}')}"
            ) from error
        except Exception as error:  # packages have errors of their own for credentials and options
            raise ConfigurationError(f"{url}: no reader for this kind of store: {error}") from error

    def __call__(self, url: str, part: tuple[int, int] | None, limit: int, timeout: float) -> bytes:
        start, stop = (0, limit + 1) if part is None else part
        with _errors_of_any_kind():
            content: bytes = self._system.cat_file(self._system._strip_protocol(url), start=start, end=stop)
        return content

    def facts(self, url: str, timeout: float) -> ObjectFacts:
        """Return the size and version of an object; FileNotFoundError if there is none, or it is a folder."""
        with _errors_of_any_kind():
            self._system.invalidate_cache()
            info = self._system.info(self._system._strip_protocol(url))
        if info["type"] != "file":
            raise FileNotFoundError(url)
        return facts_of(info)

    def matches(self, base: str, pattern: str) -> dict[str, ObjectFacts]:
        """Return the objects below `base` that match a pattern, by their names below it.

        Some stores list other versions than they tell of each object; then each object is asked for its own.
        """
        root = str(self._system._strip_protocol(base)).rstrip("/") + "/"
        with _errors_of_any_kind():
            self._system.invalidate_cache()
            entries = self._system.glob(root + pattern, detail=True)
            listed = {str(path): facts_of(info) for path, info in entries.items() if info["type"] == "file"}
            first = next(iter(listed), None)
            if first is not None and facts_of(self._system.info(first)) != listed[first]:
                listed = {path: facts_of(self._system.info(path)) for path in listed}
        return {path.removeprefix(root): facts for path, facts in listed.items()}

    def write(self, url: str, path: Path) -> None:
        """Copy a local file to an object; stores publish an object when all of it has arrived."""
        with _errors_of_any_kind():
            target = self._system._strip_protocol(url)
            self._system.makedirs(self._system._parent(target), exist_ok=True)
            self._system.put_file(str(path), target)

    def remove(self, url: str) -> None:
        """Remove an object."""
        with _errors_of_any_kind():
            self._system.rm_file(self._system._strip_protocol(url))

    def sizes(self, url: str) -> dict[str, int]:
        """Return bytes by name; empty where the folder does not exist."""
        try:
            with _errors_of_any_kind():
                self._system.invalidate_cache()
                entries = self._system.ls(self._system._strip_protocol(url), detail=True)
        except FileNotFoundError:
            return {}
        return {entry["name"].rsplit("/", 1)[-1]: int(entry["size"]) for entry in entries if entry["type"] == "file"}


@contextlib.contextmanager
def _errors_of_any_kind() -> Iterator[None]:
    """Convert errors of file systems (requests, credentials, protocols) to OSError, so that they are retried."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
