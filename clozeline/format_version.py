"""Format numbers of published files, which increase whenever earlier versions cannot read them."""

from collections.abc import Mapping
from pathlib import Path

from clozeline.errors import NewerFormatError


def refuse_newer(where: Path | str, content: object, newest: int = 1) -> None:
    """Refuse the content of a JSON file that a newer version wrote; a file without the key `format` has format 1.

    The checksum is compared before, so that a damaged number does not pass for a newer version.
    """
    version = content.get("format") if isinstance(content, Mapping) else None
    if isinstance(version, int) and version > newest:
        raise NewerFormatError(
            f"{where}: format {version} of a newer version, this version reads format {newest}: "
            "install a newer Clozeline"
        )
