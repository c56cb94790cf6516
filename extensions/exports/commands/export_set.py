"""Write a shard set for another trainer.

    clozeline export-set mine/data/encode output=exported format=parquet [rows=N]

Formats are `litdata`, `webdataset`, `parquet` and `hf` (`load_from_disk` of `datasets`). Rows keep
their order, all columns and their types. `.export.json` lists the files. MosaicML Streaming and
Megatron-LM convert `parquet` by their own writers: extensions/exports/README.md has the lines.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.exports.exported_rows import ExportedRows
from clozeline.extensions.exports.library_writers import (
    write_datasets,
    write_litdata,
    write_parquet,
    write_webdataset,
)
from clozeline.files import file_hash, publish_json
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import OutputPath, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.output_folder import new_folder

_WRITERS: Final[dict[str, Callable[[ExportedRows, Path], None]]] = {
    "hf": write_datasets,
    "litdata": write_litdata,
    "parquet": write_parquet,
    "webdataset": write_webdataset,
}
_SUMMARY: Final = ".export.json"
"""hidden: readers of folders would take another name for a file of rows"""


@config_class
class ExportSetOptions:
    """A set, and the folder and format of its export."""

    set: Annotated[UserPath, Positional(0)]
    """manifest.json of a shard set, or its folder"""
    output: OutputPath
    """new folder"""
    format: Literal["hf", "litdata", "parquet", "webdataset"]
    """format of the files"""
    rows: Positive = 10_000
    """rows per file"""


def _export(options: ExportSetOptions) -> None:
    """Write the files of the format and `.export.json`, all or none."""
    shards = open_shards(options.set)
    rows = ExportedRows(shards, options.rows)
    manifest = shards.manifest

    if not len(rows):
        raise ConfigurationError(f"{shards.path}: expected rows, got none")

    with new_folder(options.output) as folder:
        _WRITERS[options.format](rows, folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        sizes = [file.stat().st_size for file in files]
        summary = {
            "format": options.format,
            "name": manifest.name,
            "digest": shards.digest,
            "rows": len(rows),
            "columns": {spec.name: spec.description for spec in shards.columns},
            "languages": list(manifest.languages),
            "source_groups": list(manifest.source_groups),
            "tokenizer": manifest.tokenizer.model_dump(mode="json"),
            "files": {
                str(file.relative_to(folder)): {"bytes": size, "xxh3_128": file_hash(file)}
                for file, size in zip(files, sizes, strict=True)
            },
        }

        publish_json(folder / _SUMMARY, summary)

    written = f"{plural(len(rows), 'row')} in {plural(len(files), 'file')}"
    print(f"{options.output}: {written}, {sum(sizes):,} bytes")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExportSetOptions, _export)


if __name__ == "__main__":
    run_as_script(main)
