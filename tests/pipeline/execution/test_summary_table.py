"""Rows of the table of a run, from the counts of real stages."""

from __future__ import annotations

from types import SimpleNamespace

from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.corrupt.stage import CorruptStage
from clozeline.pipeline.execution.stages import Row, StageSummary
from clozeline.pipeline.execution.summary_table import accounting_rows
from clozeline.pipeline.group.stage import GroupStage
from clozeline.pipeline.tokenize.encode.stage import EncodeStage
from clozeline.pipeline.tokenize.train.stage import TrainTokenizerStage


def rows_of(kind, counts):
    row = kind.row(kind.__new__(kind), counts)
    return accounting_rows([StageSummary(kind.name, counts, row, 1234, 2.04, 3, False)])


def row_of(kind, counts):
    return rows_of(kind, counts)[0]


def test_reasons_stand_group_by_group_the_most_frequent_first():
    row = Row("9 samples", left_out=(("", {"a": 1, "b": 20, "zero": 0}), ("row", {}), ("token", {"c": 3000, "d": 1})))
    summary = StageSummary("toy", {}, row, 0, 0.26, 1, skipped=True)
    assert accounting_rows([summary]) == [
        ("toy", "9 samples", "–", "20 b\n1 a\n3,000 tokens c\n1 token d", "0", "0.3 (earlier)"),
    ]


def test_rows_of_stages():
    """Each amount has its unit; in each row of one unit, what is out and left out adds up to what is in."""
    clean = {"records_in": 7, "documents_in": 1, "documents_out": 0, "rejected": {"language": 1}, "notes": {"empty": 1},
             "malformed": {"bad_json": 4}, "ignored": {"blank_line": 2}}  # fmt: skip
    reasons = "1 document language\n4 records bad_json\n2 records blank_line\n1 empty"
    assert row_of(CleanStage, clean) == ("clean", "7 records\n1 document", "0 documents", reasons, "1,234", "2.0")
    learned = {"documents_in": 2000, "skipped": {"held_out": 0, "over_budget": 7}, "sample": {"documents": 1993},
               "vocabulary": {"size": 512}}  # fmt: skip
    shown = ("2,000 documents", "1,993 documents\n512 ids", "7 documents over_budget")
    assert row_of(TrainTokenizerStage, learned)[1:4] == shown
    encoded = {"documents_in": 3, "documents_out": 2, "tokens": 1000, "rejected": {"no_tokens": 1}}
    assert row_of(EncodeStage, encoded)[1:4] == ("3 documents", "2 documents\n1,000 tokens", "1 document no_tokens")


def test_sets_have_rows_of_their_own():
    split = {"tokens_in": 600, "samples": 1, "tokens": 500, "tokens_dropped": {"too_short": 100}}
    grouped = {"documents": {"train": 3, "heldout": 1}, "sets": {"packed": {"train": split, "heldout": split}}}
    assert rows_of(GroupStage, grouped) == [
        ("group", "4 documents", "1 set", "–", "1,234", "2.0"),
        ("  packed", "1,200 tokens", "2 samples\n1,000 tokens", "200 tokens too_short", "", ""),
    ]
    train = {"samples_in": 10, "examples": 9, "tokens": 40, "skipped": {"empty": 1}}
    heldout = {"samples_in": 2, "examples": 2, "tokens": 4, "skipped": {}}
    corrupted = {"examples": 22, "objectives": {"a": {"train": train, "heldout": heldout}, "b": {"train": train}}}
    stage = CorruptStage.__new__(CorruptStage)
    entries = [SimpleNamespace(set_label=label, variants=variants) for label, variants in (("a", 5), ("b", 1))]
    vars(stage)["config"] = entries
    row = stage.row(corrupted)
    assert (row.amount_in, row.amount_out) == ("2 objectives", "22 examples")
    (_, first), (_, second) = row.parts
    assert first.amount_in == "12 samples\n= 2 x 5 variants\n+ 2 held out"
    assert (first.amount_out, first.left_out) == ("11 examples\n44 tokens", (("sample", {"empty": 1}),))
    assert second.amount_in == "10 samples"
