"""Whole training runs against a plain loop, over all pairs of settings that may meet: precision,
ZeRO, optimizer, …"""

import json
import random
from functools import cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import yaml

from clozeline.configuration.config import load_config
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run_training
from tests.grid.pairwise import covering_rows, fill, is_forbidden, pairs_of
from tests.grid.plain_loop import Outcome, plain_loop, saved_weights
from tests.matrices import mark_slow_after
from tests.shard_sets import list_column, objective, write_set
from tests.train.masked_set import COLUMNS, FIRST_WORD, WORDS, masked_rows
from tests.train.synthetic import plain_config

STEPS = 5
FACTORS = {
    "precision": ["fp32", "bf16"],
    "stage": [0, 1, 2, 3],
    "offload": ["none", "optimizer", "parameters"],
    "micro_batches": [1, 2, 4],
    "ranks": [1, 2],
    "clipping": [0.0, 0.4, 2.0],
    "optimizer": ["adamw", "adafactor", "muon", "nt_asgd"],
    "average": [None, 0.2, 0.999],
    "layer_decay": [None, 0.7],
    "freezing": ["none", "embeddings", "by depth"],
    "adapter": ["none", "lora", "bottleneck", "prefix", "prompt", "bitfit"],
    "regularizer": ["none", "pull"],
    "recomputation": [False, True],
    "label_capacity": [None, 5, 64],
    "batch_tokens": [None, 120],
    "heads": ["one", "by row", "two"],
    "distillation": [False, True],
    "schedule": ["linear", "cosine"],
}
FORBIDDEN = [
    # bf16 needs masters of its own; offload, a partition to move, and an update by elements that
    # nothing else reads
    {"precision": ["bf16"], "stage": [0]},
    {"offload": ["optimizer"], "stage": [0]},
    {"offload": ["parameters"], "stage": [0, 1, 2]},
    {"offload": ["optimizer"], "stage": [1], "precision": ["bf16"]},
    {"offload": ["optimizer", "parameters"], "optimizer": ["adafactor", "muon", "nt_asgd"]},
    {"offload": ["optimizer", "parameters"], "average": [0.2, 0.999]},
    {"offload": ["optimizer", "parameters"], "batch_tokens": [120]},
    {"offload": ["optimizer", "parameters"], "freezing": ["by depth"]},
    # this optimizer has averages of its own; an adapter freezes the model and is no student
    {"optimizer": ["nt_asgd"], "average": [0.2, 0.999]},
    {"adapter": FACTORS["adapter"][1:], "freezing": ["embeddings"]},
    {"adapter": FACTORS["adapter"][1:], "distillation": [True]},
]
VOCABULARY = FIRST_WORD + WORDS
WITHOUT_GRADIENT = ".key.bias"
"""A shift of all scores of a query changes no attention: gradients of these are rounding, which
Adam makes large."""
ALLOWED = {"loss": 5e-6, "norm": 2e-6, "rate": 1e-12, "weights": 3e-4, "averages": 3e-4}
"""Relative differences: some roundings of fp32. Adam divides gradients by their own size, and
Muon's iteration multiplies small singular values by 500: both make rounding larger in the
weights."""
ORDERS = {"fp32": 1, "bf16": 10}
"""Orders of the data, one of which must be as near. In bf16 a master may be so near the middle of
two numbers that its weight rounds otherwise, in up to 60% of the runs: from then on gradients
differ by roundings to bf16."""
COUNT = 60
USUAL = 3
"""Runs, and the first of them that `make test` does."""

rows = cache(lambda: covering_rows(FACTORS, FORBIDDEN, COUNT, seed=3))

OPTIMIZERS = {
    "adamw": {"learning_rate": 0.01, "betas": [0.9, 0.98], "eps": 1e-5},
    "adafactor": {"learning_rate": 0.1, "eps": 1e-5},
    "muon": {
        "learning_rate": 0.01,
        "iterate_in": "fp32",
        "adam_rate": 0.5,
        "eps": 1e-5,
        "momentum": 0.9,
    },
    "nt_asgd": {"learning_rate": 0.5},
}
ADAPTERS = {
    "lora": {"rank": 3, "alpha": 6.0, "rate_ratio": 4.0},
    "bottleneck": {},
    "prefix": {"length": 3},
    "prompt": {"length": 3},
    "bitfit": {},
}
HEADS = {
    "one": {"masked_lm": 1.0},
    "by row": {"masked_lm": {"weight": 0.5, "normalize": "row"}},
    "two": {"masked_lm": 1.0, "sentence": 0.25},
}


def plain_of(row, folder, output, order=0):
    """The configuration of a run, as plain data."""
    pulls = row["regularizer"] != "none"
    adapter = row["adapter"]
    rate = OPTIMIZERS[row["optimizer"]]["learning_rate"]
    plain = plain_config(
        **BODY,
        model__heads=HEADS[row["heads"]],
        data__shards=str(folder / "train" / "manifest.json"),
        data__micro_batch=8 // row["ranks"] // row["micro_batches"],
        data__batch_tokens=row["batch_tokens"],
        data__label_capacity=row["label_capacity"],
        data__seed=order,
        data__ignore=[] if row["heads"] == "two" else ["sentence_label"],
        optimizer={
            "name": row["optimizer"],
            "weight_decay": 0.0 if pulls else 0.05 / rate,
            "layer_decay": row["layer_decay"],
            **OPTIMIZERS[row["optimizer"]],
        },
        schedule={"name": row["schedule"], "warmup": 2, "steps": 6, "final": 0.1},
        steps=STEPS,
        zero={
            "stage": row["stage"],
            "offload": row["offload"],
            "bucket": 5000,
            "persistent": 500,
        },
        precision=row["precision"],
        gradient_clipping=row["clipping"],
        output=str(output),
        activation_checkpointing=row["recomputation"],
        evaluate={"max_rows": 8, "every": STEPS},
    )
    if pulls or adapter != "none":
        plain["model"]["init_from"] = str(folder / "base")
    if adapter != "none":
        plain["model"]["adapter"] = {"name": adapter, **ADAPTERS[adapter]}
    if pulls:
        plain["regularizer"] = {"name": "l2_sp", "alpha": 0.1 / rate, "beta": 0.025 / rate}
    plain["hooks"] = (
        [] if row["average"] is None else [{"name": "average", "decay": row["average"]}]
    )
    plain["hooks"] += [{"name": "unfreezing", "every": 2}] if row["freezing"] == "by depth" else []
    plain |= {"freeze": ["embeddings"]} if row["freezing"] == "embeddings" else {}

    if row["distillation"]:
        losses = [
            {"name": "scores", "temperature": 2.0, "weight": 1.5},
            {"name": "states", "weight": 0.5},
        ]
        plain["distil"] = {"teacher": str(folder / "teacher"), "losses": losses}

    return plain


BODY = {
    "model__dropout": {},
    "model__init": {"std": 0.1},
    "model__position": {"maximum": 24},
}
TEACHER_LAYERS = 4


def rows_of_set(first_uid, count):
    """Rows of a masked LM, two of three with a class."""
    rows = masked_rows(first_uid, count)
    classes = [np.array([n % 2] if n % 3 else [], np.uint8) for n in range(count)]
    return RowBatch(
        rows.fixed, {**rows.columns, "sentence_label": Ragged.from_lists(classes, np.uint8)}
    )


def write_sets(folder):
    column = list_column("sentence_label", "uint8")
    tokenizer = {
        "name": "byte_bpe",
        "fingerprint": "f" * 64,
        "vocab_size": VOCABULARY,
        "special_ids": {"pad": 0, "mask": 3},
        "sentinels": [],
    }

    shared = {
        "columns": (*COLUMNS, column),
        "tokenizer": tokenizer,
        "block_rows": 16,
        "objective": {**objective("encoder"), "heads": ["masked_lm", "sentence"]},
    }

    write_set(folder / "train", [rows_of_set(1, 160)], name="toy/train", **shared)
    write_set(folder / "heldout", [rows_of_set(20_000, 8)], name="toy/heldout", **shared)


def train(world, config):
    return run_training(load_config(TrainConfig, config, []), joined=world)


def start(pool, plain):
    path = Path(plain["output"]).with_suffix(".yaml")
    path.write_text(yaml.safe_dump(plain))
    assert {*pool.run(train, path)} == {0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank):
    """A set, a run to start from, and a teacher twice as deep."""
    folder = tmp_path_factory.mktemp("grid")
    write_sets(folder)

    for name, layers in (("base", 2), ("teacher", TEACHER_LAYERS)):
        plain = plain_config(
            **BODY,
            model__layers=layers,
            data__shards=str(folder / "train" / "manifest.json"),
            steps=2,
            seed=layers,
            data__ignore=["sentence_label"],
            output=str(folder / name),
            evaluate={"max_rows": 0},
        )

        start(one_rank, plain)

    return folder


def outcome_of(output):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    records = [line for line in lines if "losses" in line]
    found = Outcome(
        [record["losses"] for record in records],
        [record["gradient_norm"] for record in records],
        [record["learning_rate"] for record in records],
    )

    found.weights, found.averages = (
        {name: tensor.double().numpy() for name, tensor in saved_weights(output, key).items()}
        for key in ("weight", "average")
    )
    return found


def largest_differences(found, expected, rate):
    """Return the largest relative differences.

    Those of the weights of a parameter relative to how far they moved.
    """
    assert [losses.keys() for losses in found.losses] == [
        losses.keys() for losses in expected.losses
    ]

    steps = zip(found.losses, expected.losses, strict=True)
    compared = {
        "loss": [(mine[name], theirs[name]) for mine, theirs in steps for name in theirs],
        "norm": list(zip(found.norms, expected.norms, strict=True)),
        "rate": list(zip(found.rates, expected.rates, strict=True)),
    }

    worst = {name: max(abs(a / b - 1) for a, b in of) for name, of in compared.items()}

    for key in ("weights", "averages"):
        mine = getattr(found, key)
        theirs = getattr(expected, key)

        assert mine.keys() == theirs.keys()

        names = [name for name in mine if not name.endswith(WITHOUT_GRADIENT)]
        wrong = np.array([np.linalg.norm(mine[name] - theirs[name]) for name in names] or [0.0])
        moved = np.array(
            [np.linalg.norm(theirs[name] - expected.initial[name]) for name in names] or [1.0]
        )
        # a movement near the rounding of gradients is none
        moved += 0.03 * rate * np.sqrt([theirs[name].size for name in names] or [1])
        worst[key] = float((wrong / moved).max())

    return worst


def test_all_pairs_meet():
    """Each pair of settings that an allowed row can have is in one of the rows, and no row is
    forbidden."""
    found = set().union(*map(pairs_of, rows()))
    draw = random.Random(1)

    for one, other in combinations(FACTORS, 2):
        for pair in product(
            ((one, value) for value in FACTORS[one]), ((other, value) for value in FACTORS[other])
        ):
            possible = any(fill(dict(pair), FACTORS, FORBIDDEN, draw) for _ in range(200))
            assert (pair in found) == possible, pair

    assert not any(is_forbidden(row, FORBIDDEN) for row in rows())


@pytest.mark.parametrize("number", mark_slow_after(USUAL, range(COUNT)))
def test_a_run_is_a_plain_loop(folder, tmp_path, one_rank, two_ranks, number):
    row = rows()[number]
    for order in range(ORDERS[row["precision"]]):
        plain = plain_of(row, folder, tmp_path / f"run{order}", order)
        start(two_ranks if row["ranks"] == 2 else one_rank, plain)
        more = {"vocabulary": VOCABULARY, "teacher_layers": TEACHER_LAYERS}
        (expected,) = one_rank.run(plain_loop, {**plain, **more}, row["ranks"])
        worst = largest_differences(
            outcome_of(Path(plain["output"])), expected, plain["optimizer"]["learning_rate"]
        )
        print(number, order, {k: f"{v:.1e}" for k, v in worst.items()}, row)
        wrong = {name: one for name, one in worst.items() if one > ALLOWED[name]}
        if not wrong:
            break

    assert wrong == {}, row
