"""Verify files of finished units against the records of those units when they are read.

The complete file is mapped and hashed once, right before it is parsed, so its bytes come from the
disk a single time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import parse_json
from clozeline.repair import rebuild_hint


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """One file that a stage published, with its recorded size and hash (hex); without a hash it is read as it is."""

    path: Path
    stage: str = ""
    bytes: int = 0
    xxh3_128: str = ""

    def buffer(self) -> pa.Buffer:
        """Map the file and return its bytes; StorageError if it is missing, IntegrityError if it has changed."""
        try:
            if self.path.stat().st_size == 0:
                content = pa.py_buffer(b"")
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
            f"{self.path}: expected {expected}, got {got}: these are not the bytes that "
            f"'{self.stage}' wrote; "
            f"{rebuild_hint(self.path)}"
        )

    def text(self) -> str:
        """Return the content as text, compared in the same way."""
        return str(self.buffer(), "utf-8")


def find_file(folder: Path, record: str, relative: str) -> RecordedFile:
    """Return a file with what the record of its unit says about it.

    The record of a unit is named `000003`, or `merge-000003` for a pass that has a name.
    """
    facts = _outputs(folder, record).get(relative, {})
    return RecordedFile(
        folder / relative, folder.name, facts.get("bytes", 0), facts.get("xxh3_128", "")
    )


def check_files(folder: Path, record: str, prefix: str = "") -> None:
    """Compare the files of a unit whose names begin with `prefix` with its record; StorageError or IntegrityError."""
    for relative in _outputs(folder, record):
        if relative.startswith(prefix):
            find_file(folder, record, relative).buffer()


def _outputs(folder: Path, record: str) -> dict[str, dict[str, Any]]:
    path = folder / "records" / f"{record}.json"
    try:
        outputs: dict[str, dict[str, Any]] = verify_checksum(
            parse_json(path.read_text(encoding="utf-8")), path
        )["outputs"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{path}: not the record of a unit ({error}); {rebuild_hint(path)}"
        ) from error
    return outputs
