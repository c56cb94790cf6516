"""Shard sets of real objectives over a language of arithmetic, which a small model learns in a few
steps.

A text counts upwards in steps of its own, so that context tells its tokens and what belongs
together.
"""

from dataclasses import fields

import numpy as np

from clozeline.configuration.config import to_data
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards.block import feature_columns
from tests.pipeline.corruption_cases import FIRST_CONTENT, fixed_columns, vocabulary
from tests.shard_sets import TOKENIZER, write_set

NUMBERS = 40
WORDS = vocabulary(FIRST_CONTENT + NUMBERS)
MASKED = {"masked_lm": 1.0}
GENERATOR = {"generator": {"layers": 1, "dim": 16, "attention_heads": 2, "ffn_dim": 32}}
XLNET = {"position": {"kind": "sinusoidal"}, "bias": {"qkv": False, "out": False}}


def counting_samples(seed, rows):
    """Rows of 12 to 24 tokens in sentences of four, with a partner that counts from elsewhere and a
    translation.

    A translation is in another language and counts along, three further.
    """
    random = np.random.RandomState(seed)
    lengths = random.randint(12, 25, rows)

    def texts(sizes):
        starts = random.randint(0, NUMBERS, len(sizes))
        strides = random.randint(1, 3, len(sizes))
        lists = [
            (s + d * np.arange(n)) % NUMBERS for s, d, n in zip(starts, strides, sizes, strict=True)
        ]
        return Ragged.from_lists([FIRST_CONTENT + one for one in lists], WORDS.id_dtype)

    ids = texts(lengths)
    translation = FIRST_CONTENT + (ids.values.astype(np.int64) - FIRST_CONTENT + 3) % NUMBERS
    columns = {
        "ids": ids,
        "sentence_starts": Ragged.from_lists([np.arange(0, n, 4) for n in lengths], np.uint16),
        "document_starts": Ragged.from_lists([[0]] * rows, np.uint16),
        "partner_ids": texts(lengths - 1),
        "partner_document_uid": Ragged.from_lists([[255] * 16] * rows, np.uint8),
        "partner_offset": Ragged.from_lists([[0]] * rows, np.uint32),
        "target_ids": Ragged(translation.astype(WORDS.id_dtype), ids.offsets),
        "target_language": Ragged.from_lists([[1]] * rows, np.uint8),
    }

    return RowBatch(fixed_columns(random.randint(0, 1 << 62, rows).astype(np.uint64)), columns)


def write_objective_sets(folder, name, rows=240, heldout=45, **options):
    """Write train and held-out sets of an objective below `folder`.

    Return the training manifest's path.
    """
    keys = {field.name for field in fields(OBJECTIVES.load_class(name).Options)}
    entry = (
        {"name": name}
        | {key: 64 for key in ("max_length", "input_length") if key in keys}
        | options
    )

    chosen = OBJECTIVES.resolve(entry)
    objective = build_objective(entry, WORDS)
    facts = {
        "name": name,
        "label": objective.label,
        "options": to_data(chosen.options),
        "architecture": objective.architecture,
        "heads": list(objective.heads),
        "frame": objective.form.model_dump(),
    }

    own = {
        "fingerprint": WORDS.fingerprint,
        "vocab_size": WORDS.size,
        "special_ids": dict(WORDS.specials),
    }

    tokenizer = TOKENIZER | own
    shared = {
        "objective": facts,
        "tokenizer": tokenizer,
        "languages": ("de", "en"),
        "block_rows": 16,
    }

    shared["columns"] = feature_columns(objective.features, WORDS.size)

    for seed, (split, count) in enumerate({"train": rows, "heldout": heldout}.items()):
        samples = counting_samples(seed, count)
        examples, skips = objective.corrupt(samples, np.zeros(count, np.uint16), 1)
        kept = np.flatnonzero(skips == 0)
        write_set(folder / split, [examples.take(kept)], name=f"{name}/{split}", **shared)

    return folder / "train" / "manifest.json"
