"""The documents that a run must forget: hashes of their uids, by the unit of `clean` that reads them.

A uid is hashed, so that no file of the run holds it any more. A unit whose list grows is made again without them.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.files import parse_json, publish_json
from clozeline.sealed_json import seal, unseal

_FILE: Final = "forgotten.json"
_FORMAT: Final = 1


def forgotten_hash(uid: bytes) -> str:
    """Return the hash (BLAKE2b-128, hex) by which a document is known after it is forgotten."""
    return hashlib.blake2b(b"clozeline-forgotten\0" + uid, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Forgotten:
    """Hashes of forgotten documents, sorted, by unit of `clean`."""

    units: Mapping[int, list[str]] = field(default_factory=dict)

    @cached_property
    def _hashes(self) -> frozenset[str]:
        return frozenset(each for hashes in self.units.values() for each in hashes)

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def holds(self, uid: bytes) -> bool:
        """Return whether a document is forgotten."""
        return bool(self._hashes) and forgotten_hash(uid) in self._hashes

    def with_documents(self, uids: Mapping[int, Iterable[bytes]]) -> "Forgotten":
        """Return these documents and further ones, given by unit."""
        units = {unit: set(hashes) for unit, hashes in self.units.items()}
        for unit, more in uids.items():
            units.setdefault(unit, set()).update(map(forgotten_hash, more))
        return Forgotten({unit: sorted(hashes) for unit, hashes in sorted(units.items()) if hashes})

    @staticmethod
    def load(output: Path) -> "Forgotten":
        """Read the list of a run; empty where it has none."""
        path = output / _FILE
        if not path.exists():
            return Forgotten()
        try:
            data = unseal(parse_json(path.read_text(encoding="utf-8")), path, _FORMAT)
            return Forgotten({int(unit): list(hashes) for unit, hashes in data["units"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"{path}: not a list of forgotten documents ({error}); copy it from a backup: without it, the next "
                "run reads these documents again"
            ) from error

    def save(self, output: Path) -> None:
        """Publish the list of a run."""
        units = {str(unit): hashes for unit, hashes in self.units.items()}
        publish_json(output / _FILE, seal({"format": _FORMAT, "units": units}))
