"""Shard sets for tests: small, with every row recognizable by its uid."""

import json
import uuid
from dataclasses import replace

import fsspec
import numpy as np

from clozeline.columns import COLUMNS, UNDO, Role
from clozeline.pipeline.corrupt.objectives.corrective_lm import CROP_LENGTH, CROP_START
from clozeline.pipeline.corrupt.objectives.next_sentence_prediction import SENTENCE_LABEL
from clozeline.pipeline.corrupt.objectives.span_boundary import SPAN_LENGTHS, SPAN_STARTS
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import (
    ColumnSpec,
    base_columns,
    open_shards,
    write_manifest,
    write_shard,
)
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from clozeline.seeding import mix

TOKENS = Role("ids", below="vocabulary")
TOKENIZER = {
    "name": "byte_bpe",
    "fingerprint": "f" * 64,
    "vocab_size": 1000,
    "special_ids": {
        "pad": 0,
        "cls": 1,
        "sep": 2,
        "mask": 3,
        "bos": 4,
        "eos": 5,
    },
    "sentinels": [],
}

_FEATURES = (SPAN_STARTS, SPAN_LENGTHS, CROP_START, CROP_LENGTH, SENTENCE_LABEL)
ROLES = {
    **dict.fromkeys(("ids", "token_ids", "partner_ids"), TOKENS),
    **{name: roles[0] for name, roles in COLUMNS.items()},
    **{feature.name: feature.stored_role for feature in _FEATURES},
    "label": Role("row", head="classification", below="classes"),
    "labels": Role("label", head="classification", below=2),
    "target": Role("row", head="regression", fraction=True),
    "input_ids_b": Role("ids", head="similarity", below="vocabulary"),
    "answer_span": Role("label", head="span"),
    "answer_places": Role("position", "input_ids", head="span"),
}
for head, names in {
    "tagging": ("tag_positions", "tags"),
    "multiple_choice": ("choice", "choice_starts"),
}.items():
    ROLES |= {name: replace(ROLES[name], head=head) for name in names}
"""Roles of the columns of our objectives and tasks, as they declare them; any other is kept to
undo."""


def roles_of(names):
    """The list columns of an objective, as `Collate` takes them."""
    return {name: ROLES.get(name, UNDO) for name in names}


def list_column(name, dtype="uint16"):
    return ColumnSpec(name, dtype, "list", name, ROLES.get(name, UNDO))


IDS = list_column("input_ids")

COLUMNS = [*base_columns(), IDS]
"""Columns of the rows below, in file order."""


def fixed(uids):
    n = len(uids)
    return {
        "uid": uids.astype(np.uint64),
        "variant": np.zeros(n, np.uint16),
        "document_uid": np.tile(np.arange(16, dtype=np.uint8), (n, 1)),
        "document_offset": np.arange(n, dtype=np.uint32),
        "copy": np.zeros(n, np.uint8),
        "part": np.zeros(n, np.uint8),
        "language": np.zeros(n, np.uint8),
    }


def ids_of(uid, length):
    """Token ids that depend on the uid alone, specials excluded."""
    return ((uid * 7 + np.arange(length) * 13) % 990 + 10).astype(np.uint16)


def rows(uids, lengths=8):
    """Rows with `input_ids` of the given lengths."""
    sizes = [lengths] * len(uids) if isinstance(lengths, int) else lengths
    lists = [ids_of(uid, size) for uid, size in zip(uids, sizes, strict=True)]
    return RowBatch(
        fixed(np.asarray(uids, np.uint64)), {"input_ids": Ragged.from_lists(lists, np.uint16)}
    )


def ordered(uids):
    """Rows of 3 to 7 ids as shards hold them: in order of the hash of their uid."""
    order = np.argsort(mix(np.array(uids, np.uint64)))
    return rows([uids[place] for place in order], [3 + place % 5 for place in range(len(uids))])


def write_set(
    folder, shards, *, columns=(IDS,), block_rows=4, container="arrow", codec="none", **fields
):
    """Write a shard set, one shard for each `RowBatch`, and open it."""
    folder.mkdir(parents=True, exist_ok=True)
    specs = [*base_columns(), *columns]
    infos = []

    for number, content in enumerate(shards):
        path = folder / f"shard-{number:05d}-of-{len(shards):05d}.{container}"
        options = {"block_rows": block_rows, "container": container, "codec": codec}
        infos.append(write_shard(path, content, specs, **options))

    settings = {
        "name": "toy/train",
        "kind": "examples",
        "seed": 1,
        "tokenizer": TOKENIZER,
        "columns": specs,
        "objective": objective("decoder"),
        **fields,
    }

    write_manifest(
        folder,
        block_rows=block_rows,
        container=container,
        codec=codec,
        shards=infos,
        output=Output(folder),
        **settings,
    )

    return open_shards(folder)


def uids(shards):
    return [
        uid
        for block in range(len(shards.index))
        for uid in shards.read_block(block).fixed["uid"].tolist()
    ]


def objective(architecture, **options):
    """Facts of an objective as a manifest holds them."""
    return {
        "name": "masked_lm",
        "label": "toy",
        "options": options,
        "architecture": architecture,
        "heads": ["lm"],
        "frame": {
            "padding_side": "right",
            "decoder_start": 0 if architecture == "encoder_decoder" else None,
        },
    }


def change_manifest(folder, change):
    """Rewrite a manifest with its right checksum, in its one spelling."""
    path = folder / "manifest.json"
    plain = json.loads(path.read_text())
    change(plain)
    plain.pop("checksum", None)
    path.write_text(manifest_text({**plain, "checksum": canonical_sha256(plain)}))


def damage(shards, block):
    path = shards.shard_path(int(shards.index.shard[block]))
    raw = bytearray(path.read_bytes())
    raw[int(shards.index.offset[block]) + 200] ^= 4
    path.write_bytes(raw)


def toy_set(folder, sizes, *, row_length=8, **options):
    """Shards of the given numbers of rows; uids count from 1 over all of them."""
    first = np.cumsum([1, *sizes])
    shards = [
        rows(range(start, start + size), row_length)
        for start, size in zip(first, sizes, strict=False)
    ]
    return write_set(folder, shards, **options)


def upload(shards):
    """Copy a set into the store in memory of fsspec; returns its name there."""
    name = f"/{uuid.uuid4().hex}"
    for file in shards.path.parent.iterdir():
        fsspec.filesystem("memory").pipe_file(f"{name}/{file.name}", file.read_bytes())
    return name
