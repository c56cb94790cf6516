"""Write the end of messages about files: how to repair, read or write them."""

import errno
import os
import shlex
from pathlib import Path
from typing import Final

from clozeline.errors import (
    ClozelineError,
    OutOfMemoryError,
    PartialFailureError,
    StorageError,
    message_text,
)
from clozeline.foreign_code import explain_environment, explain_foreign

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_EXHAUSTED: Final = (errno.ENOMEM, errno.EAGAIN)  # EAGAIN: no process or thread can start
_NO_MEMORY: Final = (
    *("allocate memory", "not enough memory", "out of memory", "start new thread", "bad_alloc"),
    *("failed to map segment", "thread constructor failed"),
)
_IN_THE_WAY: Final = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY)


def rebuild_hint(path: Path | str) -> str:
    """Return how to rebuild a missing or damaged file, as the end of a message.

    The folder of a stage holds its configuration and the records of its units: `--verify` compares
    every file with them, and writes again what differs.
    """
    for folder in Path(path).absolute().parents:
        if (folder / "records").is_dir():
            command = f"clozeline {folder.name} --verify"
            if not (config := folder / "config.yaml").is_file():
                return (
                    f"run `{command}` with the same configuration, which writes it again, or copy "
                    "it again"
                )
            words = ("--config", str(config), f"output={folder.parent}")
            return f"run `{command} {shlex.join(words)}`, which writes it again, or copy it again"
        if (folder / "model.json").is_file():
            return "copy the folder again, or import the model again"

    return "copy it again, or write it again with the command that wrote it"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory, or the room for a thread, is exhausted."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _EXHAUSTED
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY)


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message of an error; 1 and no message for a bug."""
    if isinstance(error, ClozelineError):
        return error.exit_code, str(error)
    if is_out_of_memory(error):
        first = (str(error) or type(error).__name__).splitlines()[0]
        return OutOfMemoryError.exit_code, message_text(
            f"out of memory ({first}): end other programs, raise the limit (ulimit -v), or use "
            "fewer executor.workers; in training, a smaller data.micro_batch, a higher zero.stage, "
            "more ranks, or precision=bf16 (--dry-run prints the memory of each stage)"
        )
    message = explain_foreign(error)
    if isinstance(error, OSError):
        message = message or explain_environment(error) or explain_error(error)
        return StorageError.exit_code, message_text(message)
    return PartialFailureError.exit_code if message else 1, message_text(message)


def explain_error(error: OSError) -> str:
    """Return a message about a file that cannot be read or written, with its remedy."""
    if error.filename is None:  # usually the standard output
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
    """Return a message about an output that cannot be written, with its remedy."""
    if error.errno in _FULL:
        remedy = "free some space, then run the same command again: finished work is kept"
    elif error.errno in _REFUSED:
        remedy = "make it writable, or choose another folder with output=DIR"
    elif error.errno == errno.ELOOP:
        remedy = "a symbolic link is where a file must be: remove it"
    elif error.errno in _IN_THE_WAY:
        remedy = (
            "something else is where a file or folder must be: remove it, or choose another folder "
            "with output=DIR"
        )
    else:
        remedy = "run the same command again, or choose another folder with output=DIR"

    return f"cannot write {path}: {error.strerror or error}; {remedy}"
