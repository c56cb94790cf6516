"""Read files of finished units, and verify them with the records of the units.

The complete file is mapped and hashed once, right before it is parsed, so its bytes are read from
the disk only once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import xxhash

from clozeline.checksummed_json import read_canonical
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import read_bytes
from clozeline.repair import rebuild_hint

_LEAST_MAPPED: Final = 1 << 14
"""Bytes from which a file is mapped: to read a smaller one takes half the time."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that a stage published, with its recorded size and hash.

    Without a hash, it is not verified.
    """

    path: Path
    stage: str = ""
    bytes: int = 0
    xxh3_128: str = ""

    def buffer(self) -> pa.Buffer:
        """Map the file and return its bytes.

        Raises:
            StorageError: it is missing or cannot be read.
            IntegrityError: it has changed.
        """
        try:
            if (self.bytes or self.path.stat().st_size) < _LEAST_MAPPED:
                content = pa.py_buffer(read_bytes(self.path))
            else:
                with pa.memory_map(str(self.path)) as source:
                    content = source.read_buffer()
        except OSError as error:
            reason = (
                "missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            )
            raise StorageError(f"{self.path}: {reason}; {rebuild_hint(self.path)}") from error

        if not self.xxh3_128:
            return content

        if content.size != self.bytes:
            expected = f"{self.bytes} bytes"
            got = f"{content.size}"
        elif (digest := xxhash.xxh3_128_hexdigest(content)) != self.xxh3_128:
            expected = f"xxh3 {self.xxh3_128}"
            got = digest
        else:
            return content

        raise IntegrityError(
            f"{self.path}: expected {expected}, got {got}: the file has changed since "
            f"'{self.stage}' wrote it; {rebuild_hint(self.path)}"
        )

    def text(self) -> str:
        """Return the content as text, verified in the same way."""
        return str(self.buffer(), "utf-8")


def find_file(folder: Path, record: str, relative: str) -> RecordedFile:
    """Return a file with size and hash from the record of its unit.

    The record of a unit is named `PASS/UNIT`, such as `merge/000003`. In a folder without records,
    such as a copied set, the file is not verified.

    IntegrityError if the folder has records, but the unit's record does not list the file.
    """
    outputs = _outputs(folder, record)
    if outputs is None:
        return RecordedFile(folder / relative)
    if relative not in outputs:
        raise IntegrityError(
            f"{folder / relative}: the record {record} does not list this file; "
            f"{rebuild_hint(folder / relative)}"
        )
    return RecordedFile(folder / relative, folder.name, **outputs[relative])


def check_files(folder: Path, record: str, prefix: str = "") -> None:
    """Verify the files of a unit whose names begin with `prefix`.

    StorageError or IntegrityError; nothing is verified in a folder without records.
    """
    for relative in _outputs(folder, record) or ():
        if relative.startswith(prefix):
            find_file(folder, record, relative).buffer()


def _outputs(folder: Path, record: str) -> dict[str, dict[str, Any]] | None:
    """Return what the record of a unit lists; None if the folder has no records at all."""
    if not (folder / "records").is_dir():
        return None
    path = folder / "records" / f"{record}.json"

    try:
        outputs: dict[str, dict[str, Any]] = read_canonical(read_bytes(path), path)["outputs"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{path}: the record of a unit is missing or damaged; {rebuild_hint(path)}; or "
            f"move a file of your own out of {folder}"
        ) from error

    return outputs
