"""Write a shard set as per-sample tars: `clozeline export-webdataset MANIFEST --output DIR [--rows N]`.

Each row becomes `{uid}-{variant}.COLUMN.npy` for its list columns and `{uid}-{variant}.json` for its source, as plain
WebDataset readers expect. Rows of quarantined blocks are dropped. The tars are much larger and slower to read than the
set: use them only with loaders that need this format.
"""

import argparse
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from clozeline.errors import IntegrityError
from clozeline.files import publish_json
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import Manifest, open_shards
from clozeline.tools.command import Arguments, plural, positive, run_tool, some_path
from clozeline.tools.shards.provenance.row_search import readable_blocks
from clozeline.tools.shards.rewriting.shard_folder import new_files

_CHECKSUM: Final = slice(148, 155)
"""position of the checksum in a tar header"""


def export(path: Path, output: Path, rows: int = 10_000) -> dict[str, Any]:
    """Write the tars, then `export.json`, which names the set and every tar; return its content."""
    shards = open_shards(path)
    blocks = readable_blocks(shards)
    total = int(shards.index.rows[blocks].sum())
    count = -(-total // rows)
    source = (row for block in blocks for row in shards.read_block(block))
    with new_files(output) as target:
        for number in range(count):
            with target.file(f"samples-{number:05d}-of-{count:05d}.tar") as temporary, temporary.open("wb") as archive:
                _write_rows(archive, islice(source, rows), shards.manifest)
        facts = {"name": shards.manifest.name, "digest": shards.digest, "rows": total, "files": target.files}
        facts["rows_in_quarantine"] = len(shards) - total
        publish_json(output / "export.json", facts)
    return facts


def _write_rows(archive: BinaryIO, source: Iterator[Row], manifest: Manifest) -> None:
    previous_key = ""
    for row in source:
        key = str(row.fixed["document_uid"].tobytes().hex())
        if "uid" in row.fixed:
            key = f"{int(row.fixed['uid']):016x}-{int(row.fixed['variant'])}"
        if key == previous_key:  # readers would join both to one sample
            raise IntegrityError(f"two consecutive rows have the key {key}: run clozeline validate-shards on the set")
        parts: list[bytes] = []
        for name, values in row.columns.items():
            parts += _member(key, f".{name}.npy", _npy_header(values.dtype.str, len(values)) + values.tobytes())
        archive.write(b"".join([*parts, *_member(key, ".json", _source_json(row, manifest))]))
        previous_key = key
    archive.write(bytes(2 * tarfile.BLOCKSIZE))
    archive.write(bytes(-archive.tell() % tarfile.RECORDSIZE))


def _member(key: str, suffix: str, content: bytes) -> tuple[bytes, bytes, bytes]:
    """Return header, content and padding of a member, which depend only on the rows."""
    plain, others = _tar_header(len(key), suffix, len(content))
    name = key.encode()
    header = b"%b%b%06o\0%b" % (name, plain[len(key) : _CHECKSUM.start], others + sum(name), plain[_CHECKSUM.stop :])
    return header, content, bytes(-len(content) % tarfile.BLOCKSIZE)


@lru_cache(maxsize=1 << 16)
def _tar_header(key_length: int, suffix: str, size: int) -> tuple[bytes, int]:
    """Return a header without key and checksum, and the sum of its other bytes."""
    entry = tarfile.TarInfo("0" * key_length + suffix)
    entry.size = size
    header = entry.tobuf(tarfile.USTAR_FORMAT)
    return header, int(header[_CHECKSUM].rstrip(b"\0"), 8) - key_length * ord("0")


@lru_cache(maxsize=1 << 16)
def _npy_header(dtype: str, length: int) -> bytes:
    memory = io.BytesIO()
    np.lib.format.write_array_header_1_0(memory, {"descr": dtype, "fortran_order": False, "shape": (length,)})
    return memory.getvalue()


def _source_json(row: Row, manifest: Manifest) -> bytes:
    facts: dict[str, Any] = {name: int(value) for name, value in row.fixed.items() if name != "document_uid"}
    facts["document_uid"] = row.fixed["document_uid"].tobytes().hex()
    if "uid" in facts:
        facts["uid"] = f"{facts['uid']:016x}"
    for name, table in (("language", manifest.languages), ("source_group", manifest.source_groups)):
        if name in facts and facts[name] < len(table):
            facts[name] = table[facts[name]]
    return json.dumps(facts, sort_keys=True).encode()


def main(arguments: Sequence[str] | None = None) -> int:
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


if __name__ == "__main__":
    raise SystemExit(main())
