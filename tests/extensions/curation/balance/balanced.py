"""A token set of languages of very different sizes, and the recipes that balance it."""

import json

import numpy as np

from clozeline.configuration.config import validate
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.rows import Ragged, RowBatch
from tests.pipeline.token_sets import run_stage, token_documents, write_rows

LENGTHS = [20 + (31 * document) % 40 for document in range(400)]
NAMES = ("en", "fr", "sw")
SOURCES = ("books", "web")
MLM = [{"name": "masked_lm", "label": "mlm", "max_length": 66, "grouping": "document"}]


def write_languages(out, *, shards=2, pairs=False):
    """Four hundred documents: of 20 one is in sw, three in fr, sixteen in en.

    Two of seven are books.
    """
    rows, _ = token_documents(LENGTHS, 1, 7)
    places = np.arange(len(rows))
    fixed = {
        **rows.fixed,
        "language": np.array([2, 1, 1, 1, *[0] * 16], np.uint8)[places % 20],
        "source_group": (places % 7 > 1).astype(np.uint16),
    }

    columns = dict(rows.columns)
    for name in ("target_ids", "target_language"):
        lists = [values if pairs and row % 3 else [] for row, values in enumerate(columns[name])]
        columns[name] = Ragged.from_lists(lists, columns[name].values.dtype)

    rows = RowBatch(fixed, columns)
    write_rows(out, rows, shards, languages=NAMES, source_groups=SOURCES)
    return rows


def recipe(out, balance, *, heldout=0.1, corrupt=None):
    """A recipe whose earlier stages are done; `balance` None leaves the stage out."""
    plain = {
        "corpus": "toy",
        "output": str(out),
        "heldout": {"fraction": heldout},
        "train_tokenizer": {},
        "encode": {},
        "group": {},
        "corrupt": corrupt or MLM,
        "balance": balance,
    }

    return validate(Recipe, plain, "recipe")


def run_balanced(out, balance, *stages, backwards=False, **more):
    """Run stages one after another and return their counts by name."""
    made = recipe(out, balance, **more)
    return {stage: run_stage(made, stage, backwards=backwards) for stage in stages}


def read_factors(out):
    return json.loads((out / "balance/factors.json").read_text())
