"""JSON objects with a checksum of their content, so that changed bytes are detected."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import xxhash

from clozeline.format_version import refuse_newer

_KEY: Final = "checksum"


def seal(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with the key `checksum`, the xxh3-128 (hex) of its canonical JSON."""
    return {**data, _KEY: _checksum(data)}


def unseal(data: Mapping[str, Any], where: Path | str, newest: int = 1) -> dict[str, Any]:
    """Verify and remove the checksum.

    ValueError if there is none or the content is not its own, NewerFormatError if a newer version wrote it.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {type(data).__name__}")  # noqa: TRY004 (damage, as any other)
    content = {name: value for name, value in data.items() if name != _KEY}
    if data.get(_KEY) != (checksum := _checksum(content)):
        raise ValueError(f"checksum: expected {data.get(_KEY)}, got {checksum}")
    refuse_newer(where, content, newest)
    return content


def _checksum(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))
