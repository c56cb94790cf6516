"""The files of a tokenizer that an earlier stage of a run wrote, as later stages read them."""

from pathlib import Path

from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.recorded_file import check_files

_RECORD = ("main", "000000")


def digest_tokenizer(folder: Path, known: KnownRecords) -> str:
    """Return a digest of the files of a tokenizer; `folder` is `tokenizer/` of its stage."""
    return known.digest(folder.parent, *_RECORD, f"{folder.name}/")


def check_tokenizer(folder: Path) -> None:
    """Verify the files of a tokenizer; StorageError or IntegrityError."""
    check_files(folder.parent, "/".join(_RECORD), f"{folder.name}/")
