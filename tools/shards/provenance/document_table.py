"""Look up documents by uid in the tables `encode/documents-*.arrow` of a run.

They hold source, offset, URL, id and declared metadata.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.dataset import IpcFileFormat

from clozeline.errors import ConfigurationError, IntegrityError, write_note
from clozeline.files import folders_above
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.group.groupings import Grouping, build_grouping, recorded_grouping
from clozeline.pipeline.ingest.documents.files import Rejection, read_rejects
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.column_set import document_table
from clozeline.pipeline.shards.layout import shard_of
from clozeline.pipeline.shards.manifest import TokenizerRecord
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import check_files
from clozeline.repair import rebuild_hint

AddressColumn: TypeAlias = Literal["url", "id"]
"""Column of document tables and rejections by which a user may name documents."""


def uid_keys(uids: NDArray[Any]) -> NDArray[np.bytes_]:
    """Return uids [n, 16] as one 16-byte value each, [n].

    Equal lengths make trailing zeros harmless.
    """
    keys: NDArray[np.bytes_] = np.ascontiguousarray(uids).view("S16")[:, 0]
    return keys


def document_tables(manifest_path: Path) -> list[Path]:
    """Return the document tables above a set, one per token shard, in shard order."""
    for folder in folders_above(manifest_path):
        tables = {
            shard.with_name(f"documents{shard.stem[5:]}.arrow")
            for shard in (folder / "encode").glob("shard-*")
        }
        # also of a shard that is missing
        tables |= {*(folder / "encode").glob("documents-*.arrow")}
        if missing := [path for path in sorted(tables) if not path.is_file()]:
            raise IntegrityError(
                f"{missing[0]}: the document table is missing; {rebuild_hint(missing[0])}"
            )
        if tables:
            return sorted(tables)

    return []


def find_documents(manifest_path: Path, uids: Collection[bytes]) -> dict[bytes, dict[str, Any]]:
    """Return source, offset, length and URL by document uid.

    Only for documents that a table above the set lists.
    """
    known = pc.field("uid").isin(pa.array(uids, pa.binary(16)))
    documents: dict[bytes, dict[str, Any]] = {}
    for path in _likely_first(document_tables(manifest_path), uids):
        if len(documents) == len(uids):
            break
        documents |= _lines(read_table(path, ("uid",), known))
    return documents


def _lines(table: pa.Table) -> dict[bytes, dict[str, Any]]:
    return {line["uid"]: line for line in table.to_pylist()}


def _likely_first(tables: list[Path], uids: Collection[bytes]) -> list[Path]:
    """Return all tables, first those that probably have documents with these uids.

    In a set that was rewritten, their order says nothing.
    """
    if not tables or not (manifest := tables[0].parent / "manifest.json").is_file():
        return tables
    seed = Manifest.load(manifest).seed
    likely = {shard_of(uid, len(tables), seed) for uid in uids}
    return [tables[number] for number in dict.fromkeys((*likely, *range(len(tables))))]


def documents_at(
    manifest_path: Path, column: AddressColumn, address: str
) -> dict[bytes, dict[str, Any]]:
    """Return documents by uid whose URL or id is `address`.

    An address that ends with `*` also matches all that start with it.
    """
    value = pc.field(column)
    is_start = address.endswith("*")
    matches = pc.starts_with(value, address[:-1]) if is_start else value == address
    documents: dict[bytes, dict[str, Any]] = {}
    for path in document_tables(manifest_path):
        documents |= _lines(read_table(path, (column,), matches))
    return documents


def rejections_at(manifest_path: Path, column: AddressColumn, address: str) -> list[Rejection]:
    """Return the documents with this URL or id that a stage above a set rejected.

    The fields are the same as in `documents_at`.
    """
    files = [
        file
        for table in document_tables(manifest_path)[:1]
        for file in table.parents[1].glob("*/rejects/*.arrow")
    ]
    rejections = (rejection for file in sorted(files) for rejection in read_rejects(file))
    addressed = ((getattr(rejection, column), rejection) for rejection in rejections)
    if address.endswith("*"):
        return [found for value, found in addressed if (value or "").startswith(address[:-1])]
    return [found for value, found in addressed if value == address]


def read_table(
    path: Path, columns: Sequence[str], documents: pc.Expression | None = None
) -> pa.Table:
    """Return some columns of a document table, in file order.

    Of the `documents` that fulfil a condition on these columns, all columns.
    """
    try:
        stored = IpcFileFormat().make_fragment(document_table(path).buffer())
        if missing := ", ".join(set(columns) - {*stored.physical_schema.names}):
            raise IntegrityError(
                f"{path}: not a document table (no {missing}); {rebuild_hint(path)}"
            )
        return stored.to_table(columns=[*columns] if documents is None else None, filter=documents)
    except pa.ArrowException as error:
        raise IntegrityError(
            f"{path}: not a document table ({error}); {rebuild_hint(path)}"
        ) from error


def tokenizer_folder(shards: ShardSet, folder: Path | None = None) -> Path:
    """Return the tokenizer folder of a set.

    It is above the set, is `folder`, or is in a set or pipeline output there.
    """
    fingerprint = shards.manifest.tokenizer.fingerprint
    if folder is None:
        return find_tokenizer(shards.path, fingerprint)
    if (folder / VOCABULARY_FILE).is_file():
        other = Vocabulary.load(folder / VOCABULARY_FILE).fingerprint
        if other != fingerprint:
            raise ConfigurationError(
                f"tokenizer={folder}: has the fingerprint {other}, but {shards.path} was made with "
                f"{fingerprint}"
            )
        return folder

    try:
        return find_tokenizer(folder / "manifest.json", fingerprint)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"tokenizer={folder}: no tokenizer here, no {VOCABULARY_FILE}; {error}; give another "
            "folder"
        ) from error


def find_pieces(
    shards: ShardSet, tokenizer: Path | None = None, limit: int = 1024
) -> TokenRenderer:
    """Return pieces that decode ids with a set's tokenizer.

    They show ids, after a note, if no folder above the set has it.

    `tokenizer`: look here instead, see `tokenizer_folder`; nothing there is an error.
    """
    try:
        return TokenRenderer(load_tokenizer(tokenizer_folder(shards, tokenizer)), limit)
    except ConfigurationError:
        if tokenizer is not None:
            raise
        write_note(
            f"no tokenizer above {shards.path}: ids are shown; tokenizer=DIR names its folder"
        )
        return TokenRenderer(vocabulary_of_manifest(shards.manifest.tokenizer), limit)


def vocabulary_of_manifest(recorded_tokenizer: TokenizerRecord) -> Vocabulary:
    """Return the vocabulary as a manifest records it: enough to invert corruption only."""
    special = np.zeros(recorded_tokenizer.vocab_size, np.bool_)
    special[[*recorded_tokenizer.special_ids.values(), *recorded_tokenizer.sentinels]] = True
    return Vocabulary(
        size=recorded_tokenizer.vocab_size,
        specials=recorded_tokenizer.special_ids,
        sentinels=recorded_tokenizer.sentinels,
        modes={},
        special=special,
        word_start=~special,
        fingerprint=recorded_tokenizer.fingerprint,
    )


def grouping_of(manifest: Manifest) -> Grouping | None:
    """Return the grouping that made the rows of a set; None for rows that are not cut from text."""
    if manifest.grouping is None:
        return None
    spec = recorded_grouping(manifest.grouping)
    return build_grouping(spec, vocabulary_of_manifest(manifest.tokenizer))


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer after comparing it with the manifest.

    None if it is not above the set.

    The tokenizer is loaded, and its files are compared with the record of the stage that wrote
    them, if its folder has records. A folder with only `vocabulary.json` is compared by its
    vocabulary.
    """
    recorded_tokenizer = shards.manifest.tokenizer

    try:
        location = tokenizer_folder(shards, folder)
    except ConfigurationError:
        if folder is not None:
            raise
        return None

    check_files(location.parent, "main/000000", f"{location.name}/")

    if [file.name for file in location.iterdir()] == [VOCABULARY_FILE]:
        vocabulary = Vocabulary.load(location / VOCABULARY_FILE)
    else:
        vocabulary = load_tokenizer(location).vocabulary

    recorded = vocabulary_of_manifest(recorded_tokenizer)
    for name, part in (
        ("vocab_size", "size"),
        ("special_ids", "specials"),
        ("sentinels", "sentinels"),
    ):
        expected, got = getattr(vocabulary, part), getattr(recorded, part)
        if got != expected:
            raise IntegrityError(
                f"{shards.path}: tokenizer.{name}: expected {expected} as {location} has, got {got}"
            )

    return vocabulary
