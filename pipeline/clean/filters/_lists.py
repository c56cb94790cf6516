"""Lists of users: a term on each line; empty lines and lines that begin with `#` are skipped."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import xxhash

from clozeline.arrays import UInt64
from clozeline.errors import ConfigurationError


def iter_terms(path: Path) -> Iterator[str]:
    """Yield the terms of a file; ConfigurationError if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                if (term := line.strip()) and not term.startswith("#"):
                    yield term
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: expected a list in UTF-8, a term on each line; it cannot be read: {error}"
        ) from error


class HashedTerms:
    """A set of strings as sorted hashes: 8 bytes each, kept once per process."""

    def __init__(self, paths: Sequence[Path], normalize: Callable[[str], str] = str.lower) -> None:
        self._hashes = [_hash_terms(path, normalize, _changed(path)) for path in paths]

    def holds_any(self, terms: Sequence[str]) -> bool:
        """Return whether one of the terms is in the set."""
        keys = np.array([xxhash.xxh3_64_intdigest(term.encode()) for term in terms], dtype=np.uint64)
        return any(
            bool((np.searchsorted(known, keys, "right") > np.searchsorted(known, keys)).any()) for known in self._hashes
        )


def _changed(path: Path) -> tuple[int, int]:
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0)


@lru_cache(maxsize=16)
def _hash_terms(path: Path, normalize: Callable[[str], str], changed: tuple[int, int]) -> UInt64:
    hashes = (xxhash.xxh3_64_intdigest(normalize(term).encode()) for term in iter_terms(path))
    array = np.fromiter(hashes, dtype=np.uint64)
    array.sort()
    return array
