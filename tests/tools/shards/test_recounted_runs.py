"""Every counter of a run is computed in two ways, by its stage and by a test: one too many is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.run_counts import check_run
from tests.pipeline.task_files import make_question_sets, make_sets, make_tagged_sets, make_text_sets
from tests.pipeline.unnoticed import overcounted, unnoticed

STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]

USUAL = (("clean", "by_source"), ("clean", "bytes_in"), ("clean", "characters_out"),
         ("clean", "text_lacks"), ("dedup", "near.candidates"), ("dedup", "near.members"), ("dedup", "near.clusters"),
         ("dedup", "characters_out"), ("dedup", "hashed"), ("dedup", "signatures"),
         ("encode", "characters"), ("encode", "sentences"), ("encode", "held_out.tokens"),
         ("train_tokenizer", "vocabulary.size"), ("train_tokenizer", "vocabulary.asked"),
         ("train_tokenizer", "sample.bytes"), ("encode", "tokens_by_source"),
         ("group", "separators"), ("group", "documents.train"), ("corrupt", "samples_in"),
         ("corrupt", "objectives"))  # fmt: skip


def test_a_run_agrees(whole: Path) -> None:
    assert check_run(whole).keys() == {*STAGES}


@pytest.mark.parametrize(("stage", "name"), USUAL)
def test_a_unit_that_counts_one_too_many_is_noticed(run: Path, stage: str, name: str) -> None:
    first = next(key for key in overcounted(run, stage) if key.startswith(name) and not key.endswith("samples"))
    assert unnoticed(run, stage, lambda key: key == first) == []


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_every_other_counter_is_compared(run: Path, stage: str) -> None:
    assert unnoticed(run, stage, lambda key: True) == []


@pytest.mark.parametrize("make", [make_sets, pytest.param(make_tagged_sets, marks=pytest.mark.slow),
                                  pytest.param(make_question_sets, marks=pytest.mark.slow),
                                  pytest.param(make_text_sets, marks=pytest.mark.slow)])  # fmt: skip
def test_the_counts_of_a_task_are_compared(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    run = make(tmp_path).parents[1]
    assert check_run(run)
    silent = [name for stage in ("tokenizer", "tasks") for name in unnoticed(run, stage, lambda key: True)]
    assert [name for name in silent if not TAKEN_FROM_THE_INPUT.search(name)] == []


TAKEN_FROM_THE_INPUT = re.compile(r"refused|layout|notes|truncated|rows_in")
"""Counts of a task that say what its files held; no set has that."""
