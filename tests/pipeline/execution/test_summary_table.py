"""Rows of the table of a run, from the counts of real stages."""

from __future__ import annotations

from pipeline.clean.stage import CleanStage
from pipeline.corrupt.stage import CorruptStage
from pipeline.encode.stage import EncodeStage
from pipeline.execution.runner import StageSummary
from pipeline.execution.stage import Row
from pipeline.execution.summary_table import accounting_rows
from pipeline.group.stage import GroupStage
from pipeline.train_tokenizer.stage import TrainTokenizerStage


def row_of(kind, counts, **facts):
    row = kind.row(kind.__new__(kind), counts)
    return accounting_rows([StageSummary(kind.name, counts, row, 1234, 2.04, 3, facts.get("skipped", False))])[0]


def test_reasons_stand_group_by_group_the_most_frequent_first():
    row = Row("9 samples", left_out=({"a": 1, "b": 20, "zero": 0}, {}, {"c": 3000}))
    summary = StageSummary("toy", {}, row, 0, 0.26, 1, skipped=True)
    assert accounting_rows([summary]) == [
        ("toy", "9 samples", "–", "20 b\n1 a\n3,000 c", "0", "0.3 (earlier)"),
    ]


def test_rows_of_stages():
    clean = {"documents_in": 1, "documents_out": 0, "rejected": {"language": 1}, "malformed": {"bad_json": 4},
             "ignored": {"blank_line": 2}, "notes": {"empty_file": 1}}  # fmt: skip
    reasons = "1 language\n4 bad_json\n2 blank_line\n1 empty_file"
    assert row_of(CleanStage, clean) == ("clean", "1 document", "0 documents", reasons, "1,234", "2.0")
    learned = {"documents_in": 2000, "skipped": {"held_out": 0, "over_budget": 7}}
    assert row_of(TrainTokenizerStage, learned)[1:4] == ("2,000 documents", "–", "7 over_budget")
    encoded = {"documents_in": 3, "documents_out": 2, "tokens": 1000, "rejected": {"no_tokens": 1}}
    assert row_of(EncodeStage, encoded)[1:4] == ("3 documents", "2 documents\n1,000 tokens", "1 no_tokens")
    grouped = {"tokens_in": 1000, "samples": 1, "tokens": 900, "tokens_dropped": {"too_short": 100}}
    assert row_of(GroupStage, grouped)[1:4] == ("1,000 tokens", "1 sample\n900 tokens", "100 too_short")
    corrupted = {"samples_in": 2, "examples": 2, "tokens": 5, "skipped": {}}
    assert row_of(CorruptStage, corrupted)[1:4] == ("2 samples", "2 examples\n5 tokens", "–")
