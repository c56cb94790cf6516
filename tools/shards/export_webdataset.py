"""Write a shard set as per-sample tars: `clozeline export-webdataset MANIFEST output=DIR [rows=N]`.

Each row becomes `{uid}-{variant}.COLUMN.npy` for its list columns and `{uid}-{variant}.json` for its source, as plain
WebDataset readers expect. Rows of quarantined blocks are dropped. The tars are much larger and slower to read than the
set: use them only with loaders that need this format.
"""

import argparse
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clozeline.errors import IntegrityError
from clozeline.files import publish_json
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import Manifest, open_shards
from clozeline.tools.command import Arguments, plural, positive, run_tool, some_path
from clozeline.tools.shards.provenance.row_search import readable_blocks
from clozeline.tools.shards.rewriting.output_folder import new_files


def export(path: Path, output: Path, rows: int = 10_000) -> dict[str, Any]:
    """Write the tars, then `export.json`, which names the set and every tar; return its content."""
    shards = open_shards(path)
    blocks = readable_blocks(shards)
    total = int(shards.index.rows[blocks].sum())
    count = -(-total // rows)
    source = (row for block in blocks for row in shards.read_block(block))
    with new_files(output) as target:
        for number in range(count):
            file = target.file(f"samples-{number:05d}-of-{count:05d}.tar")
            with file as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
                _write_rows(archive, islice(source, rows), shards.manifest)
        facts = {"name": shards.manifest.name, "digest": shards.digest, "rows": total, "files": target.files}
        facts["rows_in_quarantine"] = len(shards) - total
        publish_json(output / "export.json", facts)
    return facts


def _write_rows(archive: tarfile.TarFile, source: Iterator[Row], manifest: Manifest) -> None:
    previous_key = ""
    for row in source:
        key = str(row.fixed["document_uid"].tobytes().hex())
        if "uid" in row.fixed:
            key = f"{int(row.fixed['uid']):016x}-{int(row.fixed['variant'])}"
        if key == previous_key:  # readers would join both to one sample
            raise IntegrityError(f"two consecutive rows have the key {key}: run clozeline validate-shards on the set")
        for name, values in row.columns.items():
            memory = io.BytesIO()
            np.save(memory, values)
            _add_member(archive, f"{key}.{name}.npy", memory.getvalue())
        _add_member(archive, f"{key}.json", _source_json(row, manifest))
        previous_key = key


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


def main(arguments: Sequence[str]) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--output", type=some_path, required=True, metavar="DIR", help="folder of the tars")
    parser.add_argument("--rows", type=positive, default=10_000, metavar="N", help="rows per tar (%(default)s)")

    def action(options: argparse.Namespace) -> None:
        content = export(options.manifest, options.output, options.rows)
        size = sum(facts["bytes"] for facts in content["files"].values())
        quarantined = content["rows_in_quarantine"]
        dropped = f"; {quarantined:,} in quarantine dropped" if quarantined else ""
        files = plural(len(content["files"]), "tar")
        print(f"{options.output}: {plural(content['rows'], 'row')} in {files}, {size:,} bytes{dropped}")

    return run_tool(parser, arguments, action)
