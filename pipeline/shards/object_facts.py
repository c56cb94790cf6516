"""Size and version of an object in a store."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

# Names that file systems give to a hash or number of the content, then to the time of its last change.
_VERSIONS: Final = (
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "generation",
    "VersionId",
    "version_id",
    "blob_id",
    "sha256",
)
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


class ObjectFacts(NamedTuple):
    """Bytes of an object and what tells its content from an earlier one: etag or time, "" where the store has none."""

    size: int
    version: str


def facts_of(info: Mapping[str, Any]) -> ObjectFacts:
    """Return the facts of an entry as fsspec's file systems describe it."""
    values = (info.get(name) for name in (*_VERSIONS, *_TIMES))
    version = next((value for value in values if value), "")
    return ObjectFacts(int(info["size"] or 0), version.isoformat() if isinstance(version, datetime) else str(version))
