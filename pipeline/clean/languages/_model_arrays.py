"""The arrays of a py3langid model, memory-mapped from one file of the user's cache folder: one copy for all processes.

Reading the package's own file takes half a second of decompression and 68 MB of temporary files in every process.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from py3langid.modelio import load_model

from clozeline.files import file_hash, replacing

_ALIGNMENT: Final = 64


class ModelArrays(NamedTuple):
    """A naive Bayes model over the features that an automaton finds in bytes."""

    weights: NDArray[np.float32]
    """log-probabilities [features, classes]"""
    prior: NDArray[np.float32]
    """log-probabilities [classes]"""
    classes: NDArray[Any]
    """language codes [classes]"""
    following: NDArray[np.uint32]
    """next states [rows * 256]"""
    rows: NDArray[np.uint32]
    """start of each state's row in `following` [states]"""
    outputs: NDArray[np.int32]
    """feature of each state, or -1 [states]"""

    def check(self) -> None:
        """Raise ValueError if a walk could leave the arrays: the compiled walk does not check it."""
        states, features = len(self.rows), len(self.weights)
        if (
            self.weights.shape != (features, len(self.classes)) or self.prior.shape != (len(self.classes),)
            or len(self.outputs) != states or int(self.outputs.max()) >= features
            or int(self.following.max()) >= states or int(self.rows.max()) + 256 > len(self.following)
        ):  # fmt: skip
            raise ValueError("states or features out of range")


def cache_folder() -> Path:
    """Return the folder for what can be computed again: `$XDG_CACHE_HOME/clozeline`, by default ~/.cache/clozeline."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clozeline"


def load_arrays(path: Path) -> ModelArrays:
    """Return the arrays of the package's model at `path`; unshared if the cache folder cannot be written."""
    try:
        cached = cache_folder() / f"py3langid-{file_hash(path)}.npy"
        with suppress(OSError, ValueError):
            return _map_arrays(cached)
        cached.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(cached.with_suffix(".lock")):
            with suppress(OSError, ValueError):  # another process has written it meanwhile
                return _map_arrays(cached)
            with replacing(cached) as temporary:
                _write_arrays(temporary, _read_package(path))
        return _map_arrays(cached)
    except (OSError, RuntimeError):  # a home folder that cannot be written, or none
        return _read_package(path)


def _read_package(path: Path) -> ModelArrays:
    weights, prior, classes, following, rows, outputs = load_model(path)
    arrays = ModelArrays(
        np.asarray(weights, np.float32), np.asarray(prior, np.float32), np.array(classes),
        np.asarray(following).astype(np.uint32), np.asarray(rows).astype(np.uint32) << np.uint32(8),
        np.array(outputs, np.int32),
    )  # fmt: skip
    arrays.check()
    return arrays


def _write_arrays(path: Path, arrays: ModelArrays) -> None:
    with path.open("wb") as file:
        for array in arrays:
            npy.write_array(file, array, (1, 0), allow_pickle=False)
            file.write(bytes(-file.tell() % _ALIGNMENT))


def _map_arrays(path: Path) -> ModelArrays:
    found: list[NDArray[Any]] = []
    with path.open("rb") as file:
        for _ in ModelArrays._fields:
            npy.read_magic(file)
            shape, _, dtype = npy.read_array_header_1_0(file)
            found.append(np.asarray(np.memmap(path, dtype, "r", file.tell(), shape)))
            end = file.tell() + found[-1].nbytes
            file.seek(end + -end % _ALIGNMENT)
    arrays = ModelArrays(*found)
    arrays.check()
    return arrays


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        with suppress(OSError):  # a file system without locks: two processes may write the same file
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
