"""A tiny masked-LM corpus as shard sets, and a configuration file that trains on it.

The language is arithmetic: each row counts upwards in steps of its own, so context tells a masked
token and word frequencies do not.
"""

import numpy as np
import yaml

from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.character import Character
from tests import shard_sets
from tests.shard_sets import IDS, fixed, list_column, objective, write_set
from tests.train.synthetic import plain_config

WORDS = 40
FIRST_WORD = 10
TOKENIZER = shard_sets.TOKENIZER | {
    "vocab_size": FIRST_WORD + WORDS,
    "special_ids": {"pad": 0, "mask": 3},
}
COLUMNS = (
    IDS,
    list_column("label_positions"),
    list_column("label_ids"),
)


RESERVED = 154 + 256
"""ids before those of the letters"""


def write_characters(folder, letters):
    """Write a tokenizer with a piece for each letter, in this order; return its vocabulary."""
    folder.mkdir(parents=True)
    text = "".join(letter * (9 - place) for place, letter in enumerate(letters))
    trained = Character.train([text], Character.Options(size=RESERVED + len(letters)), folder)
    save_tokenizer(trained, "character", folder)
    return trained.vocabulary


def masked_rows(first_uid, count):
    """Rows of 8 to 15 tokens, one in five masked, at least one."""
    generator = np.random.Generator(np.random.PCG64(first_uid))
    inputs = []
    positions = []
    labels = []

    for _ in range(count):
        length = int(generator.integers(8, 16))
        start = generator.integers(0, WORDS)
        stride = generator.integers(1, 3)
        tokens = (start + stride * np.arange(length)) % WORDS + FIRST_WORD
        places = np.sort(generator.permutation(length)[: max(1, length // 5)])
        labels.append(tokens[places])
        tokens = tokens.copy()
        tokens[places] = 3
        inputs.append(tokens)
        positions.append(places)

    lists = {"input_ids": inputs, "label_positions": positions, "label_ids": labels}
    uids = np.arange(first_uid, first_uid + count)
    return RowBatch(
        fixed(uids), {name: Ragged.from_lists(rows, np.uint16) for name, rows in lists.items()}
    )


def write_masked_sets(folder, *, rows=240, heldout=45, heldout_shards=1, name="toy", **options):
    """Train and held-out sets below `folder`; returns the training manifest's path."""
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    shared = {"columns": COLUMNS, "objective": facts, "tokenizer": TOKENIZER, "block_rows": 16}
    shared |= options
    half = rows // 2
    write_set(
        folder / "train",
        [masked_rows(1, half), masked_rows(10_000, rows - half)],
        name=f"{name}/train",
        **shared,
    )

    of_shards = [
        masked_rows(20_000 + 1_000 * shard, heldout // heldout_shards)
        for shard in range(heldout_shards)
    ]
    write_set(folder / "heldout", of_shards, name=f"{name}/heldout", **shared)
    return folder / "train" / "manifest.json"


def write_config(path, shards, output, **changes):
    """A configuration file of a small encoder; `changes` are dotted keys with `__` for the dot."""
    plain = plain_config(**{"data__shards": str(shards), "output": str(output), **changes})
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return path
