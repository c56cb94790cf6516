"""Say what to do about a file that is damaged, or that cannot be read or written, as the end of a message."""

import errno
import os
import shlex
from pathlib import Path
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY: Final = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY)


def rebuild_hint(path: Path | str) -> str:
    """Return how to repair a missing or damaged file, as the end of a message.

    A stage keeps its configuration and the records of its units in its folder: `--verify` compares
    every file with them, and makes again what differs.
    """
    for folder in Path(path).absolute().parents:
        if (folder / "records").is_dir():
            command = f"clozeline {folder.name} --verify"
            if not (config := folder / "config.yaml").is_file():
                return (
                    f"run `{command}` with the same configuration, which makes it again, or copy "
                    "it again"
                )
            words = ("--config", str(config), f"output={folder.parent}")
            return f"run `{command} {shlex.join(words)}`, which makes it again, or copy it again"
        if (folder / "model.json").is_file():
            return "copy the folder again, or import the model again"
    return "copy it again, or make it again where it was made"


def explain_error(error: OSError) -> str:
    """Return a message for a file that cannot be read or written: the file, what failed, and the way out."""
    if error.filename is None:  # the standard output, mostly
        return str(error.strerror or error)
    path = Path(os.fsdecode(error.filename))
    if error.errno in _FULL:
        remedy = "free some space, then run the same command again"
    elif error.errno in _REFUSED:
        remedy = "change its permissions, or choose another folder"
    else:
        first = "remove what is there, then " if error.errno in _IN_THE_WAY else ""
        remedy = f"{first}{rebuild_hint(path)}"
    return f"{path}: {error.strerror or error}; {remedy}"


def cannot_write(path: Path, error: OSError) -> str:
    """Return a message for a file or folder of the output that cannot be written: what failed, and the way out."""
    if error.errno in _FULL:
        remedy = "free some space, then run the same command again: what is finished is kept"
    elif error.errno in _REFUSED:
        remedy = "make it writable, or choose another folder with output=DIR"
    elif error.errno == errno.ELOOP:
        remedy = "a symbolic link is where a file must be: remove it"
    elif error.errno in _IN_THE_WAY:
        remedy = (
            "a file is where a folder must be, or the reverse: remove it, or choose another "
            "folder with output=DIR"
        )
    else:
        remedy = "run the same command again, or choose another folder with output=DIR"
    return f"cannot write {path}: {error.strerror or error}; {remedy}"
