"""Two tasks that pull apart, learned one after the other by every method through the trainer."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import clozeline.tools.runs.fisher
from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, score_task
from clozeline.extensions.studies import task_sequence
from clozeline.extensions.studies.commands.forgetting import main as forgetting
from clozeline.extensions.studies.task_sequence import (
    ForgettingOptions,
    TaskSequence,
    outcome,
    summary_lines,
)
from clozeline.tools.start.multirun import runner
from tests.extensions.tasks.task_runs import start, tuned_run
from tests.pipeline import task_files
from tests.pipeline.task_files import write_recipe, write_task, write_vocabulary
from tests.refusals import refused
from tests.train.masked_set import write_masked_sets


def other_sets(folder):
    """The sets of a second task: `fine` or `dull`, in the places of `good` and `bad`."""
    for path in write_task(folder / "files").glob("*.tsv"):
        path.write_text(path.read_text().replace("good", "dull").replace("bad", "fine"))
    write_recipe(folder)
    return task_files.run(folder, write_vocabulary(folder / "words"), "executor.workers=1")


@pytest.fixture
def commands(one_rank, monkeypatch):
    """The commands of the tool, which run in processes that are there already."""
    seen = []

    def step(*command, **_):
        words = [str(word) for word in command]
        seen.append(words)

        if words[1] == "train":
            assert one_rank.run(start, Path(words[3]), words[4:]) == [0]
        else:
            assert clozeline.tools.runs.fisher.main(words[2:]) == 0

    monkeypatch.setattr(runner, "run_step", step)
    return seen


@pytest.mark.slow
def test_every_method_learns_and_the_matrix_is_that_of_the_scores(
    one_rank, commands, tmp_path, capsys
):
    """Accuracies are those of extensions/evaluation/commands/evaluate.py; what is done is not done again.

    Other words are refused.
    """
    body = tuned_run(one_rank, tmp_path / "first")
    sets = [tmp_path / "first/out/tasks/sst2", other_sets(tmp_path / "second")]
    files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
    for file, of in zip(files, sets, strict=True):
        file.write_text(f"name: {file.stem}\nshards: {of}/train\n")
    words = [
        str(body),
        f"tasks=[{files[0]},{files[1]}]",
        f"output={tmp_path}/out",
        "learned=1",
        "steps=12",
    ]

    assert forgetting([*words, "rows=20", "strength=1000"]) == 0

    found = json.loads((tmp_path / "out/forgetting.json").read_text())

    assert (found["stages"], found["kinds"]) == (
        ["before", "after second"],
        ["accuracy", "accuracy"],
    )
    assert [*found["methods"]] == ["ewc", "l2_sp", "plain", "replay"]

    runs = {method: tmp_path / "out/seed-0" / method / "second" for method in found["methods"]}
    # the first task to be trained here has an earlier one already, so that nothing is shared
    for method, of in runs.items():
        (matrix,) = found["methods"][method]["matrices"]

        for stage, place in enumerate((body, of)):
            for task, folder in enumerate(sets):
                scores = json.loads(score_task(EvaluateOptions(run=place, task=folder))[0])
                assert matrix[stage][task] == pytest.approx(scores["metrics"]["accuracy"])

        (figures,) = found["methods"][method]["figures"]

        assert figures["forgetting of first"] == pytest.approx(matrix[0][0] - matrix[1][0])
        assert figures["backward transfer"] == pytest.approx(matrix[1][0] - matrix[0][0])
        assert figures["last task"] == matrix[1][1]

    assert [words[1] for words in commands] == ["train", "train", "fisher"] + ["train"] * 2

    commands.clear()

    assert forgetting([*words, "rows=20", "strength=1000", "method=[plain,ewc]"]) == 0
    assert commands == []
    assert "plain, 1 seed" in capsys.readouterr().out
    assert forgetting([*words, "rows=20", "strength=10"]) == 64
    assert "strength was 1000.0, is 10.0" in capsys.readouterr().err
    assert forgetting([*words, "rows=20", "strength=1000", "method=plain", "seeds=2"]) == 0
    assert [("seed=1" in words) for words in commands] == [True]


@pytest.mark.parametrize("rises", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_are_those_of_a_plain_computation(rises, first):
    """Four tasks at random; with `first` 0 the first is learned before the first stage."""
    draw = np.random.default_rng(3)

    for _ in range(20):
        learned = [task + first for task in range(4)]
        matrix = draw.random((4 + first, 4))
        end = len(matrix) - 1
        found = outcome(matrix.tolist(), "abcd", learned, [rises] * 4)
        sign = 1 if rises else -1
        lost = []
        changed = []

        for task in range(3):
            best = max(sign * matrix[stage, task] for stage in range(learned[task], end))
            lost.append(best - sign * matrix[end, task])
            changed.append(sign * (matrix[end, task] - matrix[learned[task], task]))

        assert [found[f"forgetting of {name}"] for name in "abc"] == pytest.approx(lost)
        assert found["backward transfer"] == pytest.approx(sum(changed) / 3)
        assert found["last task"] == matrix[end, 3]


def test_the_table_has_means_over_seeds():
    names = ["novels", "sst2"]
    matrices = {
        "plain": [[[2.0, None], [3.0, 0.9]], [[2.0, None], [3.5, 0.7]]],
        "replay": [[[2.0, None], [2.1, 0.8]]],
    }
    figures = {
        method: [outcome(matrix, names, [0, 1], [False, True]) for matrix in of]
        for method, of in matrices.items()
    }
    found = {
        method: {"matrices": of, "figures": figures[method]} for method, of in matrices.items()
    }
    lines = [*summary_lines(found, names, ["before", "after sst2"], ["nats", "accuracy"])]

    assert lines[3].split() == ["after", "sst2", "3.2500", "0.8000"]
    assert lines[-2:] == [
        "plain   forgetting of novels 1.2500 ± 0.3536, backward transfer -1.2500 ± 0.3536, "
        "last task 0.8000 ± 0.1414",
        "replay  forgetting of novels 0.1000, backward transfer -0.1000, last task 0.8000",
    ]


def test_mistakes_are_named(tmp_path):
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        manifest = write_masked_sets(tmp_path / file.stem, name=file.stem)
        file.write_text(f"name: {file.stem}\nshards: {manifest.parent}\n")

    options = ForgettingOptions(run=tmp_path, tasks=files, output=tmp_path, learned=2)
    with refused("learned: expected fewer than the 2 tasks, got 2"):
        TaskSequence.read(options)

    (tmp_path / "one/heldout/manifest.json").unlink()
    with refused("heldout: expected a set, got none"):
        TaskSequence.read(options)


@pytest.fixture
def sequence(tmp_path, monkeypatch):
    """Three tasks with heads of their own, of which the run has learned the first.

    A body is its run's number.
    """
    tasks = []
    models = {}

    for number, head in enumerate(("lm", "classification", "regression")):
        tasks.append(
            SimpleNamespace(
                name=head, signature=((head,), ()), config=None, shards=tmp_path, heldout=tmp_path
            )
        )

        family = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(family.weight, number)
        models[tmp_path / head] = SimpleNamespace(
            family=family, config=SimpleNamespace(targets={head: head})
        )

    opener = SimpleNamespace(open=lambda run: SimpleNamespace(model=models[run]))
    monkeypatch.setattr(task_sequence, "TrainedModel", opener)
    (tmp_path / "lm").mkdir()
    options = ForgettingOptions(run=tmp_path / "lm", tasks=[*models], output=tmp_path, learned=1)
    return TaskSequence(options, tasks), models


def test_a_task_is_scored_with_its_own_heads_on_the_last_body(sequence):
    tasks, (runs, models) = sequence[0], zip(*sequence[1].items(), strict=True)
    assert tasks._model_for_task(models[1], runs[:2], 2, 2) is None  # nothing has learned its heads
    found = [tasks._model_for_task(models[2], runs, number, 3) for number in range(3)]
    assert found == [*models]
    assert [model.family.weight.item() for model in found] == [2, 2, 2]


@pytest.mark.parametrize("own", [None, "own.yaml"])
def test_without_its_own_configuration_a_task_takes_no_settings_of_the_first_alone(sequence, own):
    tasks = sequence[0]
    runs = [*sequence[1]]
    tasks.tasks[1].config = own
    resets = {
        "init_parts=[]",
        "regularizer=null",
        "data.weights=[]",
        "data.phases=[]",
        "schedule.steps=null",
    }

    assert resets.intersection(tasks._words("plain", 0, 1, runs[0])) == (set() if own else resets)
