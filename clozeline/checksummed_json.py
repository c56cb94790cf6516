"""JSON objects with a checksum of their content, so that changed bytes are detected, and with a format number.

A format number increases whenever earlier versions cannot read the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import xxhash

from clozeline.errors import NewerFormatError

_KEY: Final = "checksum"


def add_checksum(data: Mapping[str, object]) -> dict[str, Any]:
    """Return the object with the key `checksum`, the xxh3-128 (hex) of its canonical JSON."""
    return {**data, _KEY: _checksum(data)}


def verify_checksum(data: Mapping[str, Any], where: Path | str, newest: int = 1) -> dict[str, Any]:
    """Verify and remove the checksum.

    ValueError if there is none or the content is not its own, NewerFormatError if a newer version
    wrote it.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {type(data).__name__}")  # noqa: TRY004 (damage, as any other)
    content = {name: value for name, value in data.items() if name != _KEY}
    if data.get(_KEY) != (checksum := _checksum(content)):
        raise ValueError(f"checksum: expected {data.get(_KEY)}, got {checksum}")
    refuse_newer(where, content, newest)
    return content


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


def _checksum(data: Mapping[str, object]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))
