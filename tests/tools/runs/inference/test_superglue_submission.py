"""SuperGLUE's submissions, from test files as they are published to the lines that its evaluation reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import f1_score

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.recipe_command import main as tasks
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.tools.runs.evaluate import main as evaluate
from clozeline.tools.runs.inference.superglue_submission import submission_rows
from clozeline.tools.runs.predict import main as predict
from tests.pipeline.task_files import write_vocabulary
from tests.pipeline.tasks.readers.reading import reader_of, written
from tests.tools.runs.inference.test_trained_model import write_run_on

WORDS = ("a", "film", "good", "bad", "very", "not", "plot")
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "boolq": ({"question": "is it", "passage": "It is."}, {"label": "true"}, "true"),
    "cb": ({"premise": "a", "hypothesis": "b"}, {"label": "neutral"}, "neutral"),
    "rte": ({"premise": "a", "hypothesis": "b"}, {"label": "not_entailment"}, "not_entailment"),
    "axb": ({"sentence1": "a", "sentence2": "b"}, {"label": "entailment"}, "entailment"),
    "axg": ({"premise": "a", "hypothesis": "b"}, {"label": "entailment"}, "entailment"),
    "wic": ({"word": "a", "sentence1": "a b", "sentence2": "a c"}, {"label": "false"}, "false"),
    "wsc": ({"text": "Ada says she won", "target": {"span1_text": "Ada", "span1_index": 0, "span2_text": "she",
                                                    "span2_index": 2}}, {"label": "false"}, "False"),
    "copa": ({"premise": "a", "choice1": "b", "choice2": "c", "question": "cause"}, {"choice": 1}, 1),
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_a_line_for_each_row(tmp_path: Path, task: str) -> None:
    """Test files have an idx and no label; every row has an index of its own, by which it is found again."""
    row, predicted, label = CASES[task]
    reader = reader_of("superglue", task=task)
    lines = [{**row, "idx": 7, "pair_id": 1}, {**row, "idx": 9, "label": "x", "pair_id": 1}]
    rows = reader.read_unlabeled(written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert rows is not None
    items = list(rows)
    assert [(item.index, key) for item, key in items] == [(0, 7), (1, 9)]
    assert not any(isinstance(item, Rejected) for item, _ in items)
    records = [{"row": item.index, "id": key, **predicted} for item, key in items]
    assert list(submission_rows(records, reader.facts)) == [{"idx": 7, "label": label}, {"idx": 9, "label": label}]
    with pytest.raises(ConfigurationError, match=r"row 3 has no prediction .empty_text."):
        list(submission_rows([{"row": 3, "rejected": "empty_text"}], reader.facts))


def passage(number: int, *, labels: bool) -> dict[str, Any]:
    words = [WORDS[(number * step) % len(WORDS)] for step in (1, 2, 3, 5)]
    answers = [
        {"text": word, "idx": at} | ({"label": (number + at) % 2} if labels else {}) for at, word in enumerate(words)
    ]
    asked = [{"question": f"{words[at]} a ?", "idx": at, "answers": answers[: 2 + at]} for at in range(2)]
    return {"idx": number, "passage": {"text": " ".join(words), "questions": asked}}


def test_the_command_submits_what_evaluate_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of dev without its labels is predicted; its lines with those of the file have the F1 of `evaluate`."""
    (tmp_path / "files").mkdir()
    for split, first, count in (("train", 0, 12), ("val", 12, 8)):
        rows = [json.dumps(passage(number, labels=True)) for number in range(first, first + count)]
        (tmp_path / "files" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    hidden = [json.dumps(passage(number, labels=False)) for number in range(12, 20)]
    (tmp_path / "test.jsonl").write_text("\n".join(hidden) + "\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: toy\nseed: 1\ntasks:\n  reader: {name: superglue, task: multirc}\n  max_length: 32\n")
    given = [f"input={tmp_path / 'files'}", f"tokenizer.path={write_vocabulary(tmp_path / 'words')}",
             f"output={tmp_path / 'out'}"]  # fmt: skip
    assert tasks(["--config", str(recipe), *given]) == 0
    manifest = tmp_path / "out" / "tasks" / "multirc" / "train" / "manifest.json"
    head = {"classification": {"labels": ["false", "true"]}}
    write_run_on(tmp_path / "run", manifest, [3], 1, model__heads=head, model__init={"std": 0.5})
    words = [f"input={tmp_path / 'test.jsonl'}", f"output={tmp_path / 'MultiRC.jsonl'}", "layout=superglue"]
    assert predict([str(tmp_path / "run"), *words, "part_rows=7"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "MultiRC.jsonl").read_text().splitlines()]
    assert [line["idx"] for line in lines] == list(range(12, 20))
    pairs = []
    for line in lines:
        gold = passage(line["idx"], labels=True)["passage"]["questions"]
        for asked, answered in zip(gold, line["passage"]["questions"], strict=True):
            assert asked["idx"] == answered["idx"]
            for right, ours in zip(asked["answers"], answered["answers"], strict=True):
                assert right["idx"] == ours["idx"]
                pairs.append((right["label"], ours["label"]))
    capsys.readouterr()
    assert evaluate([str(tmp_path / "run"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics["f1"] == pytest.approx(f1_score(*zip(*pairs, strict=True)))
    assert 0 < metrics["f1"] < 1


def test_answers_of_a_passage_share_a_line(tmp_path: Path) -> None:
    asked = [{"question": f"Who {number}?", "idx": 10 + number, "answers": [{"text": "Ada", "idx": 20 + 2 * number},
                                                                           {"text": "Bob", "idx": 21 + 2 * number}]}
             for number in range(2)]  # fmt: skip
    lines = [{"idx": number, "passage": {"text": "Ada met.", "questions": asked}} for number in (3, 4)]
    reader = reader_of("superglue", task="multirc")
    rows = reader.read_unlabeled(written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert rows is not None
    items = list(rows)
    assert [item.index for item, _ in items] == list(range(8))
    records = [{"row": row, "id": key, "label": ["false", "true"][row % 3 == 0]} for row, (_, key) in enumerate(items)]
    expected = [
        {"idx": passage, "passage": {"questions": [
            {"idx": 10 + number, "answers": [{"idx": 20 + 2 * number + answer,
                                              "label": int((4 * at + 2 * number + answer) % 3 == 0)}
                                             for answer in range(2)]} for number in range(2)]}}
        for at, passage in enumerate((3, 4))
    ]  # fmt: skip
    assert list(submission_rows(records, reader.facts)) == expected


def test_queries_are_answered_by_texts(tmp_path: Path) -> None:
    row = {"idx": 1, "passage": {"text": "Ada met Bob.", "entities": []},
           "qas": [{"query": "@placeholder won", "idx": 5}, {"query": "@placeholder lost", "idx": 6}]}  # fmt: skip
    reader = reader_of("superglue", task="record")
    rows = reader.read_unlabeled(written(tmp_path, f"{json.dumps(row)}\n{{}}\n"))
    assert rows is not None
    (first, key), (second, _), (rejected, _) = rows
    assert (first.index, key, second.index) == (0, 5, 1)
    assert rejected == Rejected("fields", 2)
    records = [{"row": 0, "id": 5, "answer": "Ada"}]
    assert list(submission_rows(records, reader.facts)) == [{"idx": 5, "label": "Ada"}]
