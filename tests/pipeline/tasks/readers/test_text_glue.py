from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import SourceTarget, TaskFacts, glue
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

PAIR = "index\tsentence1\tsentence2\tlabel\n0\tP.\tH.\t{}\n"
WORDED = {
    "cola": ("s\t1\t\tIt is.\n", "cola sentence: It is.", "acceptable"),
    "sst2": ("sentence\tlabel\nfine film \t0\n", "sst2 sentence: fine film", "negative"),
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tA\tB\n", "mrpc sentence1: A sentence2: B",
             "equivalent"),
    "qqp": ("question1\tquestion2\tis_duplicate\nA?\tB?\t0\n", "qqp question1: A? question2: B?", "not_duplicate"),
    "stsb": ("sentence1\tsentence2\tscore\nA\tB\t2.5\n", "stsb sentence1: A sentence2: B", "2.4"),
    "mnli": ("sentence1\tsentence2\tgold_label\nIt pours.\tIt rains.\tneutral\n",
             "mnli hypothesis: It rains. premise: It pours.", "neutral"),
    "qnli": ("question\tsentence\tlabel\nWho?\tHe.\tnot_entailment\n", "qnli question: Who? sentence: He.",
             "not_entailment"),
    "rte": (PAIR.format("entailment"), "rte sentence1: P. sentence2: H.", "entailment"),
}  # fmt: skip
"""A row of each task, and its two texts as the appendix D of the paper has them."""


@pytest.mark.parametrize("task", sorted(WORDED))
def test_the_words_of_the_paper(tmp_path: Path, task: str) -> None:
    text, source, target = WORDED[task]
    reader = reader_of("glue", as_text=True, task=task)
    (item,) = items_of(reader, written(tmp_path, text, "rows.tsv"))
    assert isinstance(item, SourceTarget)
    assert (item.prefix + item.source + item.suffix, item.targets) == (source, (target,))
    official = reader_of("glue", task=task).facts
    assert (reader.facts.name, reader.facts.head, reader.facts.metrics) == (task, "lm", official.metrics)
    assert task == "stsb" or (target in reader.facts.words and len(reader.facts.words) == len(official.labels))
    assert TaskFacts.from_plain(json.loads(json.dumps(reader.facts.plain()))) == reader.facts


def test_refused_rows_stay_refused(tmp_path: Path) -> None:
    items = items_of(
        reader_of("glue", as_text=True, task="sst2"), written(tmp_path, "sentence\tlabel\na\t2\nb\t1\n", "r.tsv")
    )
    assert reasons(items) == {"bad_label": 1}


def test_numbers_are_rounded_to_fifths() -> None:
    """2.5 and 0.1 lie between two fifths: the even one is taken, as numpy rounds in T5's own code."""
    assert doctest.testmod(glue).failed == 0


def test_what_the_paper_does_not_word_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="as_text: T5 has no words for the classes of wnli"):
        reader_of("glue", task="wnli", as_text=True)
