"""Where documents came from: their lines in `encode/documents-*.arrow` of the run that a set belongs to."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import IntegrityError

__all__ = ["find_documents"]


def find_documents(manifest_path: Path, uids: Collection[bytes]) -> dict[bytes, dict[str, Any]]:
    """Source, offset, length and url by document uid; those that no table above the set knows are left out.

    Args:
        manifest_path: of the set.
        uids: document uids, 16 bytes each.

    Raises:
        IntegrityError: a file of that name is no table of documents.
    """
    found: dict[bytes, dict[str, Any]] = {}
    for folder in manifest_path.resolve().parents:
        for path in sorted((folder / "encode").glob("documents-*.arrow")):
            wanted = set(uids) - found.keys()
            if not wanted:
                return found
            found |= _search(path, wanted)
    return found


def _search(path: Path, uids: Collection[bytes]) -> dict[bytes, dict[str, Any]]:
    wanted = pa.array(list(uids), pa.binary(16))
    found: dict[bytes, dict[str, Any]] = {}
    try:
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                lines = batch.filter(pc.is_in(batch.column("uid"), value_set=wanted)).to_pylist()
                found |= {line["uid"]: line for line in lines}
    except (pa.ArrowException, KeyError) as error:
        raise IntegrityError(f"{path}: not a table of documents ({error}); run encode again") from error
    return found
