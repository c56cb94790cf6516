"""Held-out evaluation in whole runs: which rows, when, and what an interruption in its middle
costs."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.phases import as_phases
from clozeline.train.data.stream.reading_order import ReadingOrder
from clozeline.train.evaluate import batches_of_pass, levels_of, unit_of
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.startup.announcements import dry_run
from tests.matrices import mark_slow_after
from tests.shard_sets import damage
from tests.train.masked_set import masked_rows, write_config, write_masked_sets
from tests.train.runs import evaluations
from tests.train.test_run import start

# 45 held-out rows are 6 batches of 8
STEPS = 8
EVERY = 4
PASSES = 6


def logged(output):
    """Every bit of a run's losses, one entry a step or an evaluation."""
    return [
        (
            record["step"],
            record.get("loss"),
            json.dumps(record.get("heldout")),
        )
        for record in read_lines(output / "metrics.jsonl")
    ]


@pytest.fixture(scope="module")
def straight(two_ranks, tmp_path_factory, shards):
    folder = tmp_path_factory.mktemp("straight")
    config = write_config(folder / "a.yaml", shards, folder / "run", evaluate__every=EVERY)

    assert two_ranks.run(start, config, []) == [(0, "")] * 2

    found = logged(folder / "run")

    assert [step for step, _, heldout in found if heldout != "null"] == [EVERY, STEPS]

    return found


@pytest.mark.parametrize(
    ("look", "every"),
    mark_slow_after(
        1,
        [
            (EVERY, None),
            (EVERY + PASSES - 1, 4),
        ],
    ),
)
def test_a_stop_in_an_evaluation_ends_it_on_all_ranks(
    two_ranks, tmp_path, shards, straight, look, every
):
    """The next start makes up for it to the same bits, saved before or not."""
    changes = {"evaluate__every": EVERY, "checkpoint__every": every}
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run", **changes)

    assert two_ranks.run(start, config, [], look) == [(75, "")] * 2
    assert logged(tmp_path / "run") == straight[:EVERY]
    assert (tmp_path / "run" / "checkpoints" / "latest").read_text() == f"step-{EVERY:08d}\n"
    assert two_ranks.run(start, config, []) == [(0, "")] * 2
    assert logged(tmp_path / "run") == straight


def test_a_corrupt_heldout_block_ends_all_ranks(two_ranks, tmp_path):
    """One rank reads it; the others neither hang nor go on."""
    path = write_masked_sets(tmp_path / "corrupt")
    heldout = open_shards(tmp_path / "corrupt" / "heldout")
    damage(heldout, 1)
    config = write_config(tmp_path / "a.yaml", path, tmp_path / "run", steps=1)
    results = two_ranks.run(start, config, [])

    assert [code for code, _ in results] == [65, 65]
    assert all(
        f"{heldout.shard_path(0).name}: block 1: expected xxh3-128" in message
        for _, message in results
    )
    assert (tmp_path / "run" / "checkpoints" / "latest").read_text() == "step-00000001\n"


@pytest.mark.parametrize(
    ("rows", "batches"), [(None, 6), (45, 6), (1000, 6), (41, 6), (40, 5), (9, 2), (1, 1)]
)
def test_rows_are_whole_batches(rows, batches):
    assert batches_of_pass(45, 8, rows) == batches


def test_a_part_of_the_heldout_set_is_the_same_everywhere(two_ranks, one_rank, tmp_path, shards):
    """9 rows are two batches of 8: the first 4 lane rows of 4 lanes, found here by the order's own
    arithmetic."""
    heldout = open_shards(shards.parent.parent / "heldout")
    content = masked_rows(20_000, 45).columns["label_ids"]
    labels = []
    for _, block, row in ReadingOrder(as_phases(heldout), 0, 4, 16).origins(0, 4).tolist():
        labels += content[block * 16 + row].tolist()
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    found = []

    for name, ranks in (("one", one_rank), ("two", two_ranks)):
        config = write_config(
            tmp_path / f"{name}.yaml", shards, tmp_path / name, steps=2, model__dropout={}
        )
        assert ranks.run(start, config, ["evaluate.every=1", "evaluate.max_rows=9"])[0][0] == 0
        found += evaluations(tmp_path / name)

    assert [evaluation["labels"] for evaluation in found] == [len(labels)] * 4

    entropy = -float((shares * np.log(shares)).sum())

    assert [evaluation["unigram_entropy"] for evaluation in found] == pytest.approx([entropy] * 4)
    assert [evaluation["majorities"]["masked_lm"] for evaluation in found] == pytest.approx(
        [shares.max()] * 4
    )
    assert found[1]["loss"] == pytest.approx(found[3]["loss"], abs=2e-6)


def test_levels_have_the_weights_and_the_divisor_of_the_loss():
    """Two labels of a row and one of another, by row; then weights 2 and 1, counted as 8 tokens."""
    by_row = levels_of({(7, 0.5): 2, (9, 1.0): 1}, 2)

    assert by_row == pytest.approx((math.log(2), 0.5))

    declared = levels_of({(7, 2.0): 1, (7, 1.0): 1, (9, 1.0): 1}, 8)

    assert declared == pytest.approx((3 / 8 * math.log(4 / 3) + 1 / 8 * math.log(4), 3 / 8))


def test_the_unit_of_a_loss_is_what_weighs_alike_in_it():
    label, by_row, token, row = (
        SimpleNamespace(unit=unit, options=SimpleNamespace(normalize=averaged))
        for unit, averaged in (
            ("label", "label"),
            ("label", "row"),
            ("token", "label"),
            ("row", "label"),
        )
    )

    cases = (
        ([label], "labels"),
        ([by_row, row], "rows"),
        ([token], "tokens"),
        ([label, row], "predictions"),
    )
    for heads, unit in cases:
        assert unit_of(heads) == unit


def test_the_dry_run_counts_evaluations(tmp_path, shards, capsys):
    """Two and the end's, of 45 rows in batches of 8.

    Their operations are a third of those of as many rows trained on.
    """

    def told(*overrides):
        config = write_config(
            tmp_path / "a.yaml", shards, tmp_path / "run", steps=5, schedule__steps=5
        )

        assert dry_run(load_config(TrainConfig, config, list(overrides))) == 0

        text = capsys.readouterr().out
        return text, float(text.split("arithmetic about ")[1].split()[0])

    without, trained = told("evaluate.max_rows=0")

    assert "held-out   none" in without

    text, both = told("evaluate.every=2")

    assert "held-out   45 rows, every 2 steps and at the end: 3 evaluations" in text
    assert both == pytest.approx(trained * (1 + 3 * 45 / 3 / (5 * 8)), rel=0.05)
    assert len({said.split(" operations, ")[1].split()[0] for said in (without, text)}) == 1, (
        "of training alone"
    )
