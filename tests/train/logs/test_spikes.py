"""Spikes against medians computed by numpy, and of a run whose set holds one wrong row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.shards.explain_batch import main
from clozeline.train.data.stream.stream import Stream
from clozeline.train.logs.spikes import Spikes, deviations
from tests.distributed import RankPool
from tests.shard_sets import objective, write_set
from tests.train.masked_set import COLUMNS, FIRST_WORD, WORDS, masked_rows, write_config
from tests.train.runs import events, start

BLOCK = 16
SPIKE = 44
"""Step whose batch holds the wrong row."""


def plain(values: list[float], bar: float) -> list[int]:
    """Places above the bar, each compared with the 200 values before it, of which there must be 30."""
    found = []
    for place in range(30, len(values)):
        before = np.array(values[max(0, place - 200) : place])
        spread = 1.4826 * np.median(np.abs(before - np.median(before)))
        if spread > 0 and (values[place] - np.median(before)) / spread > bar:
            found.append(place)
    return found


def test_values_far_above_the_last_ones_are_found() -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    losses: list[float] = (4.0 * np.exp(-np.arange(500) / 150) + generator.normal(0, 0.1, 500)).tolist()
    for place in (10, 29, 30, 31, 250, 499):
        losses[place] += 8.0
    losses[300] -= 3.0
    expected = plain(losses, 6.0)
    assert set(expected) >= {30, 31, 250, 499}
    assert not {10, 29, 300} & set(expected)
    judged = Spikes(6.0, [])
    found = [place for place, loss in enumerate(losses) if "loss" in judged.detect({"loss": loss})]
    assert found == expected
    resumed = Spikes(6.0, [{"loss": loss} for loss in reversed(losses[:240])])
    assert [n for n in range(240, 500) if resumed.detect({"loss": losses[n]})] == [n for n in expected if n >= 240]


def test_spikes_in_a_row_are_counted_also_from_the_records() -> None:
    """A loss that is not finite neither continues nor ends them; a record without a loss is one of an evaluation."""
    records: list[dict[str, Any]] = [{"loss": 1.0 + n % 2 / 10} for n in range(40)]
    judged, counts = Spikes(6.0, []), []
    records += [{"loss": loss} for loss in (9.0, None, 9.5, 1.0, 8.0, 8.5, 8.1)]
    for record in records:
        judged.detect(record)
        counts.append(judged.in_a_row)
        if judged.in_a_row:
            record["spikes_in_a_row"] = judged.in_a_row
    assert counts == [0] * 40 + [1, 1, 2, 0, 1, 2, 3]
    for end in range(40, 48):
        assert Spikes(6.0, [{"heldout": {}}, *reversed(records[:end])]).in_a_row == counts[end - 1]


def test_norms_are_judged_and_what_is_not_finite_is_left_out() -> None:
    judged = Spikes(6.0, [{"loss": 1.0, "gradient_norm": 1.0 + n % 2} for n in range(40)])
    for wrong in (None, float("inf"), float("nan")):
        assert judged.detect({"loss": 1.0, "gradient_norm": wrong}) == {}
    assert judged.detect({"loss": 90.0, "gradient_norm": 15.0}) == {
        "gradient_norm": {"value": 15.0, "median": 1.5, "deviations": 13.5 / (1.4826 * 0.5)}
    }, "losses that are all alike have no spread"
    assert deviations(9, [1, 2, 3, 4, 5]) == pytest.approx(4.05, abs=0.005)


def write(folder: Path, change: Callable[[int, Rows], Rows]) -> ShardSet:
    """A training set of 416 rows in full blocks of two shards; `change` may change one by its number."""
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    names = {"name": "byte_bpe", "fingerprint": "f" * 64, "sentinels": []}
    tokenizer = {**names, "vocab_size": FIRST_WORD + WORDS, "special_ids": {"pad": 0, "mask": 3}}
    shards = [change(part, masked_rows(1 + 1000 * part, 208)) for part in (0, 1)]
    return write_set(
        folder, shards, name="toy/train", columns=COLUMNS, objective=facts, tokenizer=tokenizer, block_rows=BLOCK
    )


def wrong(rows: Rows, number: int) -> Rows:
    """The rows, of which one asks for a token that no other row has, at all its places but the first."""
    lists = {name: [column[row].copy() for row in range(len(rows))] for name, column in rows.columns.items()}
    length = len(lists["input_ids"][number])
    lists["label_positions"][number] = np.arange(1, length, dtype=np.uint16)
    lists["label_ids"][number] = np.full(length - 1, 5, np.uint16)
    return Rows(rows.fixed, {name: Ragged.from_lists(column, np.uint16) for name, column in lists.items()})


def test_a_wrong_row_is_found_in_its_batch(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order depends on names and sizes alone: the row that step 44 reads is made wrong. Stopped shortly before."""
    clean = write(tmp_path / "set", lambda _, rows: rows)
    with Stream(clean, rank=0, world_size=1, seed=0, global_batch=8, micro_batch=2, lanes=4) as stream:
        _, block, row = stream.explain(8 * (SPIKE - 1))[3].tolist()
    part, number = divmod(block * BLOCK + row, 208)
    write(tmp_path / "bad", lambda n, rows: wrong(rows, number) if n == part else rows)
    config = write_config(
        tmp_path / "run.yaml", tmp_path / "bad" / "manifest.json", tmp_path / "run", optimizer__learning_rate=0.01,
        schedule={"name": "constant", "steps": 50}, model__dropout={},
    )  # fmt: skip
    for steps in (SPIKE - 2, 50):
        assert one_rank.run(start, config, [f"steps={steps}", "evaluate.max_rows=0"]) == [(0, "")]
    (event,) = events(tmp_path / "run", "spike")
    assert event["step"] == SPIKE
    assert event["loss"]["deviations"] > 6
    assert [0, block, row] in event["rows_source_block_row"]
    assert len(event["rows_source_block_row"]) == 8
    words = event["command"].split()
    assert words[:2] == ["clozeline", "explain-batch"]
    assert main([*words[2:], "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (part, number) in [(int("shard-00001" in one["shard"]), one["block"] * BLOCK + one["row"]) for one in shown]
    assert one_rank.run(start, config, [f"output={tmp_path / 'quiet'}", "steps=50", "log.spike=null"]) == [(0, "")]
    assert not events(tmp_path / "quiet", "spike")
