"""Counts of stages that follow from their data and their configuration: equal as they are, different once either is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clozeline.pipeline.execution.stage_report import read_report
from clozeline.pipeline.ingest.documents.files import read_documents, write_documents
from clozeline.pipeline.tokenize.train.sample import mean_copies
from clozeline.tools.shards.validation.stage_counts import recount, shares

STAGES = ("dedup", "train_tokenizer", "encode")


def different(run: Path, stage: str) -> list[str]:
    """Return the counts of a stage that its data contradict."""
    counts = read_report(run / stage / "report.json", "")["counts"]
    return [what for what, value, expected in recount(run / stage, counts) if value != expected]


def configured(path: Path, change: Callable[[Any], object]) -> None:
    plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(plain)
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")


def test_a_whole_run_agrees(whole: Path) -> None:
    names = {name: [what for what, *_ in _all(whole, name)] for name in STAGES}
    assert names == {
        "dedup": ["hashed", "signatures", "near.candidates", "near.members"],
        "train_tokenizer": ["sample", "skipped", "vocabulary.asked"],
        "encode": ["held_out", "tokens by id"],
    }
    assert [different(whole, stage) for stage in STAGES] == [[], [], []]


def _all(run: Path, stage: str) -> list[Any]:
    return list(recount(run / stage, read_report(run / stage / "report.json", "")["counts"]))


@pytest.mark.parametrize(
    ("stage", "change", "found"),
    [
        ("train_tokenizer", lambda plain: plain["train_tokenizer"].update(size=701), ["vocabulary.asked"]),
        ("train_tokenizer", lambda plain: plain["train_tokenizer"].update(sample_bytes=9000), ["sample", "skipped"]),
        ("train_tokenizer", lambda plain: plain["heldout"].update(fraction=0.5), ["sample", "skipped"]),
        ("encode", lambda plain: plain.update(seed=8), ["held_out", "tokens by id"]),
        ("dedup", lambda plain: plain["dedup"]["exact"].update(key="url"), ["hashed"]),
    ],
    ids=["size", "budget", "held-out", "seed", "key"],
)
def test_another_configuration_is_noticed(run: Path, stage: str, change: Any, found: list[str]) -> None:
    configured(run / stage / "config.yaml", change)
    assert different(run, stage) == found


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("budget", [70, 10**9])
def test_shares_of_languages_are_those_of_the_stage(alpha: float, budget: int) -> None:
    available = {"en": 90_000, "de": 7000, "sw": 31}
    assert shares({**available, "und": 0}, budget, alpha) == pytest.approx(
        {**mean_copies(available, budget, alpha), "und": 1}
    )


def test_another_text_is_noticed(run: Path) -> None:
    """One character more in each document that dedup left, and one document less in what it read."""
    for path in (run / "dedup" / "documents").glob("*.arrow"):
        texts = list(read_documents(path))
        write_documents(path, [replace(one, text=f"{one.text}x") for one in texts])
    assert different(run, "train_tokenizer") == ["sample"]
    path = next(path for path in (run / "clean" / "documents").glob("*.arrow") if list(read_documents(path)))
    write_documents(path, list(read_documents(path))[1:])
    assert different(run, "dedup") == ["hashed"]
