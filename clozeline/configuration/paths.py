"""Check paths that a user gives.

A home folder is expanded; what is neither a file nor a folder is refused, and a URL where a command
writes.

A pipe without a writer would be waited for without end, and a device such as `/dev/zero` read
without end.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, WrapValidator

from clozeline.file_kinds import special_kind

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?!/)(.+)", re.IGNORECASE | re.DOTALL)
_FILE_SCHEME: Final = re.compile(r"^file:/+", re.IGNORECASE)


def as_url(path: Path | str) -> str | None:
    """Return `path` as a URL if it begins with a scheme, else None; `Path` folds double slashes."""
    match = _URL.fullmatch(str(path))
    if match is None or match[1].lower() == "file":
        return None
    return f"{match[1]}://{match[2]}"


def local_path(path: Path | str) -> Path:
    """Return the path of a file, also if it is given as a `file` URL."""
    return Path(_FILE_SCHEME.sub("/", str(path)))


def refusal_of_special(path: Path | str) -> str | None:
    """Return the message about a path that is neither a file nor a folder.

    None if it is one, or nothing is there.
    """
    kind = special_kind(path)
    return (
        None
        if kind is None
        else f"{path}: expected a file or folder, got {kind}; write its content to a file first"
    )


def _refuse_unusable(value: object) -> object:
    """Refuse an empty path, which would name the working folder, and one with a NUL."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and (not text or "\0" in text):
            raise ValueError("expected a path, got an empty text or one with the character NUL")
    return value


def _expand(value: object) -> object:
    """Return a path, or the paths in a list or mapping, with the home folder expanded.

    `~` and `~user` are replaced.
    """
    if isinstance(value, list):
        return [_expand(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _expand(item) for key, item in value.items()}
    # nothing, or an object whose own paths are expanded already
    if not isinstance(value, (str, Path)):
        return value
    try:
        expanded = type(value)(Path(value).expanduser()) if str(value).startswith("~") else value
    except RuntimeError as error:
        raise ValueError(
            f"{value}: there is no such home folder; write ./{value} for a file of this name"
        ) from error

    if (refusal := refusal_of_special(expanded)) is not None:
        raise ValueError(refusal)
    return expanded


HOME_EXPANDED: Final = WrapValidator(lambda value, read: _expand(read(_refuse_unusable(value))))
"""Annotation of a key that holds paths: shells do not expand `~` in `output=~/data`."""


class WrittenPath(PosixPath):
    """A path that a command writes: no other key may name what is there."""


def _as_local(path: Path) -> Path:
    """Return a path or `file:` URL as a local path; refuse other URLs, chained ones too."""
    local = local_path(path)
    first = str(local).partition("/")[0]
    if first.endswith(":") or "::" in first:
        raise ValueError(
            f"expected a local path, got a URL ({first.partition(':')[0]}:...): use a local "
            "folder, and copy it from or to the store"
        )
    return local


UserPath: TypeAlias = Annotated[Path, HOME_EXPANDED]
"""A path, in which `~` is the home folder."""
LocalPath: TypeAlias = Annotated[UserPath, AfterValidator(_as_local)]
"""A path of this machine, or a `file:` URL."""
OutputPath: TypeAlias = Annotated[LocalPath, AfterValidator(lambda path: WrittenPath(path))]
"""A file or folder that a command writes."""
