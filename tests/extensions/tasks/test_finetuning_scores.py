"""Scores of fine-tuned runs: tables, matrices and the best keys, by hand."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from clozeline.errors import IntegrityError
from clozeline.extensions.tasks.commands import finetune
from clozeline.extensions.tasks.commands.finetune import choose_words
from clozeline.extensions.tasks.finetuning_scores import (
    ScoredRun,
    advice_lines,
    comparison_lines,
    matrix_lines,
    read_by_split,
    read_scored,
    scores_path,
    table_lines,
)
from clozeline.extensions.tasks.readers import TaskMetadata
from tests.refusals import refused

FACTS = {
    "name": "toy",
    "head": "classification",
    "labels": ["0", "1"],
    "metrics": ["accuracy"],
    "texts": 1,
    "positive": None,
    "low": 0.0,
    "high": 1.0,
}
ANSWERS = [0, 1, 0, 1]


def write(folder, seed, predicted, **changes):
    right = sum(one == other for one, other in zip(ANSWERS, predicted, strict=True)) / 4
    baselines = changes.get(
        "baselines", {"majority": {"accuracy": 0.5}, "words": {"accuracy": 0.8}}
    )
    scores = {
        "task": "toy",
        "split": "dev",
        "n": 4,
        "seed": seed,
        "set": "s",
        "metrics": {"accuracy": right},
        "unit": "texts",
        "notes": {},
        "baselines": baselines,
        "lower": [],
        "degenerate": False,
        **changes,
    }

    plain = {"scores": scores, "facts": FACTS}
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    (folder / "scores" / f"seed-{seed}.json").write_text(json.dumps(plain))


@pytest.mark.parametrize(("lower", "worse"), [([], ["most"]), (["accuracy"], ["least"])])
def test_a_mean_is_worse_in_the_direction_of_its_metric(lower, worse, tmp_path):
    levels = {name: {"accuracy": level} for name, level in (("most", 0.9), ("least", 0.1))}
    for seed, predicted in ((0, [0, 1, 1, 0]), (1, [0, 1, 0, 0])):
        write(tmp_path, seed, predicted, baselines=levels, lower=lower)
    *_, line = table_lines([("a", read_scored(tmp_path))])
    assert line.endswith(f"worse than {' and '.join(worse)}")


def test_a_table_of_two_folders(tmp_path):
    for seed, predicted in ((0, [0, 1, 0, 1]), (1, [0, 1, 0, 0]), (10, [0, 1, 1, 0])):
        write(tmp_path / "a", seed, predicted)
    write(tmp_path / "b", 0, [1, 1, 1, 0])
    groups = [(name, read_scored(tmp_path / name)) for name in ("a", "b")]
    lines = [" ".join(line.split()) for line in table_lines(groups)]

    assert lines == [
        "a: toy dev, 4 texts, 3 runs (seeds 0, 1, 10)",
        "a share of 4 texts decides nothing: its standard error is up to 0.25",
        "accuracy 0.7500 ± 0.2500 baselines: majority 0.5000, words 0.8000 worse than words",
        "b: toy dev, 4 texts, 1 run (seed 0)",
        "a share of 4 texts decides nothing: its standard error is up to 0.25",
        "accuracy 0.2500 (one run) baselines: majority 0.5000, words 0.8000 worse than majority "
        "and words",
    ]

    (line,) = comparison_lines(groups)

    assert line == "b - a: accuracy -0.5000 (one seed)"

    write(tmp_path / "b", 1, [0, 1, 1, 0])
    (line,) = comparison_lines(
        [
            groups[0],
            ("b", read_scored(tmp_path / "b")),
        ]
    )

    assert line == "b - a: accuracy -0.3750 ± 0.1909", "0.25 of three seeds, 0.1768 of two"

    write(tmp_path / "other", 0, ANSWERS, set="other")

    with refused("a comparison needs scores on one set, got 2: other, s"):
        list(comparison_lines([groups[0], ("other", read_scored(tmp_path / "other"))]))


def test_a_score_below_a_baseline_says_so_at_the_first_seed_and_what_helps(tmp_path):
    """A score above all baselines says nothing."""
    write(tmp_path / "a", 0, [0, 1, 0, 0])
    first = " ".join(advice_lines(read_scored(tmp_path / "a"), 400))

    assert "accuracy 0.7500 against 0.8000" in first
    write(tmp_path / "b", 0, ANSWERS)

    assert not [*advice_lines(read_scored(tmp_path / "b"), 400)]


def test_a_matrix_of_folders_by_sets(tmp_path):
    """Means over seeds; the gap is dev less the mean of the others."""
    for seed, predicted in ((0, [0, 1, 0, 1]), (1, [0, 1, 0, 0])):
        write(tmp_path / "en", seed, predicted)

        for name, other in (("de", [0, 1, 1, 0]), ("fr", [0, 1, 0, 0])):
            write(tmp_path / "en", seed, other, set=name)
            path = scores_path(tmp_path / "en", f"test_{name}", seed)
            path.parent.mkdir(exist_ok=True)
            (tmp_path / "en/scores" / f"seed-{seed}.json").rename(path)

        write(tmp_path / "en", seed, predicted)

    write(tmp_path / "fr", 0, [0, 1, 0, 0])
    found = list(matrix_lines([(name, read_by_split(tmp_path / name)) for name in ("en", "fr")]))

    assert [line.split() for line in found] == [
        ["accuracy", "dev", "de", "fr", "gap"],
        ["en", "0.8750", "0.5000", "0.7500", "0.2500"],
        ["fr", "0.7500", "-", "-", "-"],
    ]


def test_folders_that_hold_no_scores(tmp_path):
    with refused(r"expected an output of clozeline finetune with scores, got none"):
        read_scored(tmp_path)

    write(tmp_path, 0, ANSWERS)
    write(tmp_path, 1, ANSWERS, set="other")
    with refused("scored on different sets"):
        read_scored(tmp_path)
    (tmp_path / "scores/seed-1.json").write_text('{"scores": ')
    with pytest.raises(IntegrityError, match=r"seed-1.json: is damaged; remove it"):
        read_scored(tmp_path)


def test_the_main_metric_is_the_one_that_the_reader_lists_first():
    facts = TaskMetadata(
        name="mrpc", head="classification", labels=("0", "1"), metrics=("f1", "accuracy")
    )
    stored = {"accuracy": 0.8, "brier": 0.1, "f1": 0.9}  # JSON is sorted
    assert [*ScoredRun({"metrics": stored}, facts).metrics] == ["f1", "accuracy", "brier"]


def test_the_best_score_chooses_and_the_first_of_equal_ones(tmp_path, monkeypatch, capsys):
    scores = {"run-0": 0.5, "run-1": 0.7, "run-2": 0.7, "run-3": 0.6}
    trained = []

    def read(folder):
        metrics = {"accuracy": scores[folder.name], "other": 1.0}
        return [
            SimpleNamespace(
                scores={"metrics": metrics}, facts=SimpleNamespace(metrics=("accuracy", "other"))
            )
        ]

    monkeypatch.setattr(finetune, "run_plan", trained.extend)
    monkeypatch.setattr(finetune, "read_scored", read)
    chosen = choose_words(
        tmp_path,
        Path("train.yaml"),
        ["seed=0"],
        {"steps": [1, 2, 3, 4]},
    )

    assert chosen == ["steps=2"]
    assert [command.words[3:] for command in trained] == [
        ["seed=0", f"steps={number + 1}", f"output={tmp_path / f'run-{number}' / 'run'}"]
        for number in range(4)
    ]
    lines = capsys.readouterr().out.splitlines()

    assert [line.endswith("<- chosen") for line in lines] == [False, False, True, False, False]
    assert json.loads((tmp_path / "choice.json").read_text())["chosen"] == ["steps=2"]
