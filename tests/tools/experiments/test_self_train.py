"""Self-training in rounds: what each round learns from, what it records, and when it is the last."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest

from clozeline.tools.experiments import self_train
from clozeline.tools.experiments.self_train import Round, reason_to_stop


def rounds_of(*scores, changed=0.5):
    return [Round(10, None if number < 2 else changed, {"accuracy": score}) for number, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "changed", "patience", "expected"),
    [
        ([0.5], 0.5, 1, None),
        ([0.5, 0.6], 0.5, 1, None),
        ([0.5, 0.6, 0.6], 0.5, 1, "no higher score for 1 round"),
        ([0.5, 0.6, 0.6], 0.5, 2, None),
        ([0.5, 0.6, 0.4, 0.59], 0.5, 2, "no higher score for 2 rounds"),
        ([0.5, 0.6, 0.4, 0.61], 0.5, 2, None),
        ([0.5, 0.6, 0.7], 0.009, 1, "fewer than 1% of the labels changed"),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 0.5, 1, "4 rounds, as `rounds` says"),
    ],
)
def test_when_no_other_round_follows(scores, changed, patience, expected):
    assert reason_to_stop(rounds_of(*scores, changed=changed), 4, patience) == expected


def test_each_round_learns_from_the_labels_of_the_round_before(tmp_path, monkeypatch, capsys):
    """Two of three rows of the second round are new, and one of the first is gone. A second call adds a round alone."""
    labels, scores = {1: "a\nb\n", 2: "a\na\nc\n"}, [0.5, 0.7, 0.6]
    labelled, students, out = [], [], tmp_path / "out"

    def label(teacher, chosen):
        labelled.append((teacher, chosen.input, chosen.output, chosen.threshold, chosen.per_class))
        chosen.output.write_text(labels[len(labelled)], encoding="utf-8")
        chosen.output.with_name(f"{chosen.output.name}.json").write_text("{}", encoding="utf-8")

    def scored(folder):
        metrics = {"accuracy": scores[int(folder.name.removeprefix("round-"))], "f1": 0.25}
        return [SimpleNamespace(scores={"metrics": metrics})]

    monkeypatch.setattr(self_train, "pseudo_label", label)
    monkeypatch.setattr(self_train, "finetune", lambda body, student, words: students.append((body, student, words)))
    monkeypatch.setattr(self_train, "read_scored", scored)
    for name in ("body", "texts.txt"):
        (tmp_path / name).mkdir() if name == "body" else (tmp_path / name).touch()
    files = {"train": tmp_path / "t", "dev": tmp_path / "d"}
    words = [f"{key}={path}" for key, path in {**files, "unlabeled": tmp_path / "texts.txt", "output": out}.items()]
    words = [str(tmp_path / "body"), "task=toy", *words, "threshold=0.75", "per_class=9", "steps=4"]
    assert self_train.main([*words, "rounds=1"]) == 0
    assert self_train.main([*words, "rounds=2"]) == 0
    folders = [out / f"round-{number}" for number in range(3)]
    assert labelled == [
        (before / "seed-0", tmp_path / "texts.txt", folder / "pseudo.jsonl", 0.75, 9)
        for before, folder in pairwise(folders)
    ]
    pseudo = [None, *(folder / "pseudo.jsonl" for folder in folders[1:])]
    wanted = [
        self_train.FinetuneOptions(task="toy", **files, output=folder, pseudo=path, seeds=1)
        for folder, path in zip(folders, pseudo, strict=True)
    ]
    assert students == [(tmp_path / "body", one, ["steps=4"]) for one in (*wanted[:2], *wanted)]
    recorded = json.loads((out / "rounds.json").read_text(encoding="utf-8"))
    assert [(one["labels"], one["changed"], one["metrics"]["accuracy"]) for one in recorded] == [
        (0, None, 0.5), (2, None, 0.7), (3, 0.75, 0.6),
    ]  # fmt: skip
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-5:-1]] == [
        ["round", "labels", "changed", "accuracy", "f1"], ["0", "0", "-", "0.5000", "0.2500"],
        ["1", "2", "-", "0.7000", "0.2500", "best"], ["2", "3", "75.0%", "0.6000", "0.2500"],
    ]  # fmt: skip
