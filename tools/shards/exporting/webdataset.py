"""Write rows as per-sample tars, as plain WebDataset readers expect.

Each row becomes `KEY.COLUMN.npy` for its list columns and `KEY.json` for its other columns. The key is the sample's uid
and variant, or the document's uid in a token set.
"""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.exporting.exported_rows import ExportedRows


def write_webdataset(rows: ExportedRows, folder: Path) -> None:
    """Write the tars.

    Raises:
        IntegrityError: consecutive rows have the same key, and readers would join them to one sample.
    """
    previous_key = ""
    for number, part in enumerate(rows.files()):
        path = folder / f"samples-{number:05d}-of-{rows.file_count:05d}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for row in part:
                previous_key = _write_row(archive, row, rows.shards.manifest, previous_key)


def _write_row(archive: tarfile.TarFile, row: Row, manifest: Manifest, previous_key: str) -> str:
    """Add the members of a row; return its key."""
    key = str(row.fixed["document_uid"].tobytes().hex())
    if "uid" in row.fixed:
        key = f"{int(row.fixed['uid']):016x}-{int(row.fixed['variant'])}"
    if key == previous_key:
        raise IntegrityError(f"two consecutive rows have the key {key}: run clozeline validate-shards on the set")
    for name, values in row.columns.items():
        memory = io.BytesIO()
        np.save(memory, values)
        _add_member(archive, f"{key}.{name}.npy", memory.getvalue())
    _add_member(archive, f"{key}.json", _source_json(row, manifest))
    return key


def _add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file whose header depends only on its name and size."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _source_json(row: Row, manifest: Manifest) -> bytes:
    facts: dict[str, Any] = {name: int(value) for name, value in row.fixed.items() if name != "document_uid"}
    facts["document_uid"] = row.fixed["document_uid"].tobytes().hex()
    if "uid" in facts:
        facts["uid"] = f"{facts['uid']:016x}"
    for name, table in (("language", manifest.languages), ("source_group", manifest.source_groups)):
        if name in facts and facts[name] < len(table):
            facts[name] = table[facts[name]]
    return json.dumps(facts, sort_keys=True).encode()
