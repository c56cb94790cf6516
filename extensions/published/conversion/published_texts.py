"""Texts of config.json and generation_config.json, as the publisher of a model wrote them."""

from pathlib import Path
from typing import Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import WeightsError
from clozeline.files import publish_json, read_text
from clozeline.model.checkpoints.import_record import (
    IMPORT_RECORD,
    read_checkpoint_json,
    read_import_record,
)

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
_PUBLISHED_FILE: Final = "published.json"
"""File of a run with the published config.json and generation_config.json of the model that the run
continues."""


def find_published(folder: Path) -> dict[str, str]:
    """Return the texts of config.json and generation_config.json that a model was published with.

    The folder is one of transformers, an import, or a run that continues one of them; without these
    texts, the result is empty.
    """
    # the folder is an import
    if (path := folder / IMPORT_RECORD).is_file():
        return read_import_record(path).published
    # the folder is a run that continues a published model
    if (path := folder / _PUBLISHED_FILE).is_file():
        try:
            return {
                str(name): str(text)
                for name, text in verify_checksum(read_checkpoint_json(path), path)[
                    "published"
                ].items()
            }
        except (ValueError, KeyError, AttributeError) as error:
            raise WeightsError(
                f"{path} is damaged: {error}; remove it to export without the published keys"
            ) from error
    # the folder is one of transformers
    files = [folder / name for name in (CONFIG, GENERATION)]
    return {
        path.name: read_text(path)
        for path in files
        if path.is_file() and read_checkpoint_json(path)
    }


def store_published(source: Path, run: Path) -> None:
    """Store the published texts of the model that a run continues, in case its source is lost."""
    if published := find_published(source):
        publish_json(run / _PUBLISHED_FILE, add_checksum({"format": 1, "published": published}))
