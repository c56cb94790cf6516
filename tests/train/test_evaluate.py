"""Held-out evaluation in whole runs: which rows, when, and what an interruption in its middle
costs."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.phases import as_phases
from clozeline.train.data.stream.reading_order import ReadingOrder
from clozeline.train.evaluate import batches_of_pass, levels_of, unit_of, weighed_classes
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.startup.announcements import dry_run
from tests.matrices import mark_slow_after
from tests.model.compression.distillation.pairs import VOCABULARY, batch, model
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


@pytest.mark.parametrize("normalize", ["label", "row"])
def test_a_part_of_the_heldout_set_is_the_same_everywhere(
    two_ranks, one_rank, tmp_path, shards, normalize
):
    """9 rows are two batches of 8: the first 4 lane rows of 4 lanes, found here by the order's own
    arithmetic.

    Levels of the labels have the weights of the loss: with `row`, each row's sum is 1.
    """
    heldout = open_shards(shards.parent.parent / "heldout")
    content = masked_rows(20_000, 45).columns["label_ids"]
    origins = ReadingOrder(as_phases(heldout), 0, 4, 16).origins(0, 4).tolist()
    rows = [labels for _, block, row in origins if len(labels := content[block * 16 + row])]
    weights = np.zeros(256)
    for labels in rows:
        np.add.at(weights, labels, 1 / len(labels) if normalize == "row" else 1.0)
    count = len(rows) if normalize == "row" else int(weights.sum())
    shares = weights[weights > 0] / weights.sum()
    heads = {"masked_lm": {"normalize": normalize}}
    found = []

    for name, ranks in (("one", one_rank), ("two", two_ranks)):
        config = write_config(
            tmp_path / f"{name}.yaml",
            shards,
            tmp_path / name,
            steps=2,
            model__dropout={},
            model__heads=heads,
        )
        assert ranks.run(start, config, ["evaluate.every=1", "evaluate.max_rows=9"])[0][0] == 0
        found += evaluations(tmp_path / name)

    counted = [(evaluation["labels"], evaluation["unit"]) for evaluation in found]

    assert counted == [(count, f"{normalize}s")] * 4

    entropy = -float((shares * np.log(shares)).sum())

    assert [evaluation["unigram_entropy"] for evaluation in found] == pytest.approx([entropy] * 4)
    assert [evaluation["majorities"]["masked_lm"] for evaluation in found] == pytest.approx(
        [shares.max()] * 4
    )
    assert found[1]["loss"] == pytest.approx(found[3]["loss"], abs=2e-6)


@pytest.mark.parametrize("weighed", ["label", "row", "objective"])
def test_the_entropy_is_the_loss_of_scores_that_know_frequencies_alone(monkeypatch, weighed):
    normalize = "row" if weighed == "row" else "label"
    head = model(heads={"masked_lm": {"normalize": normalize}}).heads["masked_lm"]
    tensors = batch()
    if weighed == "objective":
        tensors |= {"label_weight": torch.arange(8) / 4.0, "label_count": torch.arange(4) + 5}
    labels = Counter(weighed_classes(head, tensors))
    weights = torch.zeros(VOCABULARY)
    for (label, weight), count in labels.items():
        weights[label] += weight * count
    scores = (weights / weights.sum()).log()
    monkeypatch.setattr(head, "logits", lambda states: scores.expand(len(states), -1))
    loss = head.loss(torch.zeros(*tensors["input_ids"].shape, 15), tensors)

    level = levels_of(labels, loss.count)

    assert level.entropy == pytest.approx(float(loss.total) / loss.count, rel=1e-5)
    assert level.majority == pytest.approx(float(weights.max()) / loss.count)


def test_the_unit_of_a_loss_is_what_weighs_alike_in_it():
    label, by_row, token, row = (
        SimpleNamespace(unit=unit, options=SimpleNamespace(unit=averaged))
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
    """Two of 16 rows and the end's.

    Their operations are a third of those of as many rows trained on.
    """

    def told(*overrides):
        config = write_config(
            tmp_path / "a.yaml", shards, tmp_path / "run", steps=5, schedule__steps=5
        )

        assert dry_run(load_config(TrainConfig, config, list(overrides))) == 0

        text = capsys.readouterr().out
        return text, float(text.split("arithmetic ")[1].split()[0])

    without, trained = told("evaluate.max_rows=0")

    assert "held-out   none" in without

    text, both = told("evaluate.max_rows=9", "evaluate.every=2")

    assert "held-out   16 rows in each of 3 evaluations" in text
    assert both == pytest.approx(trained * (1 + 3 * 16 / 3 / (5 * 8)), rel=0.05)
    assert len({said.split(" operations, ")[1].split()[0] for said in (without, text)}) == 1, (
        "of training alone"
    )
    assert "48 rows in each of 1 evaluations" in told()[0]
    assert "trained on" not in text
    assert "same is also trained on" in told(f"data.heldout={{same: {shards}}}")[0]
