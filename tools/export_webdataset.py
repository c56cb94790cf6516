"""Write a shard set as per-sample tars: `python tools/export_webdataset.py MANIFEST --output DIR [--rows N]`.

Each row becomes `{uid}-{variant}.COLUMN.npy` for its list columns and `{uid}-{variant}.json` for where it comes from,
as plain WebDataset readers want it. Much larger and slower to read than the set itself: for other people's loaders.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.example import Row
from pipeline.shards import Manifest, ShardSet, open_shards
from pipeline.stage import Output, publish_json
from tools.command import Arguments, positive, run_tool

__all__ = ["export", "main"]

_RECORD = "export.json"


def export(path: Path, output: Path, rows: int = 10_000) -> list[str]:
    """Write the tars; their names. `export.json`, written last, names the set and every tar.

    Args:
        path: manifest of the set, or its folder.
        output: folder of the tars.
        rows: rows of a tar; only the last may have fewer.

    Raises:
        ClozelineError: the set is damaged, two neighbours have one key, or the folder holds an export already.
    """
    shards = open_shards(path)
    if (output / _RECORD).exists():
        raise ConfigurationError(f"--output {output}: holds an export already; choose another folder")
    target = Output(output)
    count = -(-len(shards) // rows)
    names = [f"samples-{number:05d}-of-{count:05d}.tar" for number in range(count)]
    source = _rows(shards)
    for number, name in enumerate(names):
        with target.file(name) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
            _write(archive, source, min(rows, len(shards) - number * rows), shards.manifest)
    facts = {"name": shards.manifest.name, "digest": shards.digest, "rows": len(shards), "files": target.files}
    publish_json(output / _RECORD, facts)
    return names


def _rows(shards: ShardSet) -> Iterator[Row]:
    for block in range(len(shards.index)):
        yield from shards.read_block(block)


def _write(archive: tarfile.TarFile, source: Iterator[Row], rows: int, manifest: Manifest) -> None:
    """Take `rows` rows and append their members."""
    before = ""
    for _ in range(rows):
        row = next(source)
        key = _key(row)
        if key == before:  # readers would take both for one sample
            raise IntegrityError(f"two rows in a row have the key {key}; check the set with tools/validate_shards.py")
        for name, values in row.columns.items():
            memory = io.BytesIO()
            np.save(memory, values, allow_pickle=False)
            _add(archive, f"{key}.{name}.npy", memory.getvalue())
        _add(archive, f"{key}.json", json.dumps(_facts(row, manifest), sort_keys=True).encode())
        before = key


def _key(row: Row) -> str:
    if "uid" in row.fixed:
        return f"{int(row.fixed['uid']):016x}-{int(row.fixed['variant'])}"
    return str(row.fixed["document_uid"].tobytes().hex())


def _facts(row: Row, manifest: Manifest) -> dict[str, Any]:
    """The fixed columns as people read them: uids in hexadecimal, codes by name."""
    facts: dict[str, Any] = {name: int(value) for name, value in row.fixed.items() if name != "document_uid"}
    facts["document_uid"] = row.fixed["document_uid"].tobytes().hex()
    if "uid" in facts:
        facts["uid"] = f"{facts['uid']:016x}"
    for name, table in (("language", manifest.languages), ("source_group", manifest.source_groups)):
        if name in facts and facts[name] < len(table):
            facts[name] = table[facts[name]]
    return facts


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """A member without time or owner, so that the bytes depend on the rows alone."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=Path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tars")
    parser.add_argument("--rows", type=positive, default=10_000, metavar="N", help="rows of a tar (%(default)s)")

    def action(options: argparse.Namespace) -> int:
        names = export(options.manifest, options.output, options.rows)
        size = sum((options.output / name).stat().st_size for name in names)
        print(f"{options.output}: {Manifest.load(options.manifest).totals.samples:,} rows in {len(names):,} tars, "
              f"{size:,} bytes")  # fmt: skip
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
