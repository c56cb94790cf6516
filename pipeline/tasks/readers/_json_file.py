"""Read a complete JSON file, plain or compressed."""

from pathlib import Path
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.formats.decompression import Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import Limits


def read_whole_json(path: Path, limits: Limits) -> Any:
    """Return the data of a JSON file; ConfigurationError if it is damaged, too large or not JSON."""
    try:
        content = bytearray()
        for piece in decompress_file(path, limits, resume=False):
            if isinstance(piece, Damage):
                raise piece
            content += piece
            if len(content) > limits.decompressed_bytes:
                raise ConfigurationError(f"{path}: more than limits.decompressed_bytes, {limits.decompressed_bytes}")
        return parse_json(content.decode("utf-8-sig"))
    except (Damage, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read as JSON ({error}): copy the file again") from error
