"""A token set with its vocabulary, as `encode` and `train_tokenizer` leave them, and runs of the
stages after it."""

import hashlib

import numpy as np

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards, write_manifest, write_shard
from clozeline.pipeline.shards.column_set import token_columns
from clozeline.pipeline.shards.tables import TOKEN_COUNTS_FILE, write_token_counts
from clozeline.seeding import order_key
from tests.pipeline.corruption_cases import FIRST_CONTENT, vocabulary
from tests.pipeline.unit_runs import run_pass
from tests.shard_sets import change_manifest

WORDS = vocabulary(1000)


def write_token_set(out, lengths, shards=2, seed=1, sentence=7, words=WORDS):
    """Documents of these lengths, dealt to shards by their order; returns them all, by order."""
    rows, _ = token_documents(lengths, seed, sentence, words)
    write_rows(out, rows, shards, seed, words)
    return rows


def write_rows(
    out, rows, shards, seed=1, words=WORDS, languages=("en", "de"), source_groups=("default",)
):
    tokenizer = out / "train_tokenizer" / "tokenizer"
    tokenizer.mkdir(parents=True)
    words.save(tokenizer / "vocabulary.json")
    keys = [order_key(uid.tobytes(), "order", seed) for uid in rows.fixed["document_uid"]]
    columns = token_columns(words.size, pairs=True)
    output = Output(out / "encode")
    infos = []

    for shard in range(shards):
        name = f"shard-{shard:05d}-of-{shards:05d}.arrow"
        mine = np.array([(key * shards) >> 64 == shard for key in keys], np.bool_)

        with output.file(name) as path:
            infos.append(
                write_shard(
                    path, rows.take(np.flatnonzero(mine)), columns, block_rows=16, name=name
                )
            )

    facts = {"name": "byte_bpe", "fingerprint": words.fingerprint, "vocab_size": words.size}
    write_manifest(
        out / "encode",
        name="tokens",
        kind="tokens",
        seed=seed,
        columns=columns,
        block_rows=16,
        container="arrow",
        codec="none",
        shards=infos,
        output=output,
        languages=list(languages),
        source_groups=list(source_groups),
        tokenizer={**facts, "special_ids": words.specials, "sentinels": list(words.sentinels)},
    )


def write_counts(folder, counts):
    """The counts of ids, as `encode` and `group` leave them in a set."""
    path = folder / TOKEN_COUNTS_FILE
    write_token_counts(path, counts)
    raw = path.read_bytes()
    record = {"path": path.name, "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    change_manifest(folder, lambda plain: plain.update(token_counts=record))


def token_documents(lengths, seed, sentence, words=WORDS):
    """Random documents sorted by their order key, and the keys."""
    random = np.random.RandomState(3)
    uids = random.randint(0, 256, (len(lengths), 16)).astype(np.uint8)
    keys = [order_key(uid.tobytes(), "order", seed) for uid in uids]
    order = sorted(range(len(lengths)), key=lambda document: keys[document])
    fixed = {
        "document_uid": uids[order],
        "language": (np.arange(len(lengths)) % 2).astype(np.uint8),
        "source_group": np.zeros(len(lengths), np.uint16),
    }

    ids = [random.randint(FIRST_CONTENT, words.size, lengths[document]) for document in order]
    # Every fifth document has no other side.
    targets = [
        one[::-1][: 1 + len(one) // 2] if document % 5 else [] for document, one in enumerate(ids)
    ]
    columns = {
        "token_ids": Ragged.from_lists(ids, words.id_dtype),
        "sentence_starts": Ragged.from_lists(
            [range(0, len(one), sentence) for one in ids], np.uint32
        ),
        "target_ids": Ragged.from_lists(targets, words.id_dtype),
        "target_language": Ragged.from_lists(
            [[1] if len(one) else [] for one in targets], np.uint8
        ),
    }

    return RowBatch(fixed, columns), [keys[document] for document in order]


def recipe(out, corrupt, *, group=None, heldout=0.1, seed=1):
    plain = {
        "corpus": "toy",
        "seed": seed,
        "output": str(out),
        "heldout": {"fraction": heldout},
        "train_tokenizer": {},
        "group": group or {},
        "corrupt": corrupt,
    }

    return validate(Recipe, plain, "recipe")


def run_stage(of, name, *, backwards=False):
    """All passes of a stage in this process; a failed unit raises its error."""
    stage = stage_of(of, name)
    total = {}
    for work in stage.passes():
        add_counts(total, run_pass(stage, work, reversed if backwards else list))
    stage.check(total)
    return total


def all_rows(folder):
    shards = open_shards(folder)
    return RowBatch.concatenate([shards.read_block(block) for block in range(len(shards.index))])


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not {"tmp", "records", "digests"} & set(path.relative_to(folder).parts)
    }
