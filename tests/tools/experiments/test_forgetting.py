"""Two tasks that pull apart, learned one after the other by every method through the trainer."""

import json
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.forgetting import main as forgetting
from clozeline.tools.experiments.multirun import task_sequence
from clozeline.tools.experiments.multirun.forgetting_scores import ForgettingOptions, outcome, summary, summary_lines
from clozeline.tools.experiments.multirun.task_sequence import read_tasks
from tests.train.masked_set import write_masked_sets


@pytest.mark.parametrize("learned", [0, 1])
def test_matrices_of_all_methods_and_seeds_are_written_and_printed(tmp_path, monkeypatch, capsys, learned):
    """Of a task learned before, the first stage is the one that learned it."""
    tasks = [SimpleNamespace(name=name, plain=lambda name=name: {"name": name}) for name in ("novels", "sst2")]
    matrix = [[3.0, 0.1], [2.0, 0.5], [2.5, 0.75]][learned:]

    class Sequence(SimpleNamespace):
        def check(self, method):
            if method == "replay":
                raise ConfigurationError("expected tasks of the same heads")

        def learn(self, method, seed):
            assert (self.run, self.tasks, self.words) == (tmp_path / "body", tasks, ("steps=4",))
            return [[score + seed for score in row] for row in matrix]

        def kinds(self, method):
            return ["nats", "accuracy"]

    made = lambda run, tasks, options, words: Sequence(run=run, tasks=tasks, words=words)  # noqa: E731
    monkeypatch.setattr(task_sequence, "TaskSequence", made)
    monkeypatch.setattr(task_sequence, "read_tasks", lambda files, known: tasks)
    monkeypatch.setattr("clozeline.train.checkpoint.run_weights.find_checkpoint", lambda run: None)
    words = [str(tmp_path / "body"), "tasks=[a,b]", f"output={tmp_path / 'out'}", f"learned={learned}", "steps=4"]
    (tmp_path / "body").mkdir()
    assert forgetting([*words, "method=[plain,ewc]", "seeds=2"]) == 0
    found = json.loads((tmp_path / "out" / "forgetting.json").read_text(encoding="utf-8"))
    stages = ["before", "after novels", "after sst2"]
    assert (found["tasks"], found["kinds"]) == (["novels", "sst2"], ["nats", "accuracy"])
    assert found["stages"] == ([*stages[:1], *stages[2:]] if learned else stages)
    assert found["learned"] == ([0, 1] if learned else [1, 2])
    seeds = [[[score + seed for score in row] for row in matrix] for seed in (0, 1)]
    wanted = summary({"plain": seeds, "ewc": seeds}, found["tasks"], found["learned"], [False, True])
    assert found["methods"] == wanted
    lines = summary_lines(wanted, found["tasks"], found["stages"], found["kinds"])
    assert capsys.readouterr().out.splitlines() == [*lines]
    assert forgetting([*words, "method=[plain,replay]"]) == 64
    assert "expected tasks of the same heads" in capsys.readouterr().err


@pytest.mark.parametrize("rises", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_are_those_of_a_plain_computation(rises, first):
    """Four tasks at random; with `first` 0 the first is learned before the first stage."""
    draw = np.random.default_rng(3)
    for _ in range(20):
        learned = [task + first for task in range(4)]
        matrix = draw.random((4 + first, 4))
        end = len(matrix) - 1
        found = outcome(matrix.tolist(), learned, [rises] * 4)
        sign = 1 if rises else -1
        lost, changed = [], []
        for task in range(3):
            best = max(sign * matrix[stage, task] for stage in range(learned[task], end))
            lost.append(best - sign * matrix[end, task])
            changed.append(sign * (matrix[end, task] - matrix[learned[task], task]))
        assert found.forgetting == pytest.approx(lost)
        assert found.backward_transfer == pytest.approx(sum(changed) / 3)
        assert found.last == matrix[end, 3]


def test_the_table_has_means_over_seeds():
    matrices = {
        "plain": [[[2.0, None], [3.0, 0.9]], [[2.0, None], [3.5, 0.7]]],
        "replay": [[[2.0, None], [2.1, 0.8]]],
    }
    found = summary(matrices, ["novels", "sst2"], [0, 1], [False, True])
    figures = found["plain"]["figures"]
    assert figures["forgetting of novels"]["seeds"] == [1.0, 1.5]
    assert figures["forgetting of novels"]["mean"] == 1.25
    assert figures["forgetting of novels"]["deviation"] == pytest.approx(statistics.stdev([1.0, 1.5]))
    assert figures["backward transfer"]["mean"] == -1.25
    assert figures["last task"]["mean"] == pytest.approx(0.8)
    lines = [*summary_lines(found, ["novels", "sst2"], ["before", "after sst2"], ["nats", "accuracy"])]
    assert lines[3].split() == ["after", "sst2", "3.2500", "0.8000"]
    assert lines[-1] == "replay  forgetting of novels 0.1000, backward transfer -0.1000, last task 0.8000"


def test_mistakes_are_named(tmp_path):
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        manifest = write_masked_sets(tmp_path / file.stem, name=file.stem)
        file.write_text(f"name: {file.stem}\nshards: {manifest.parent}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="learned: expected fewer than the 2 tasks, got 2"):
        read_tasks(files, 2)
    with pytest.raises(ConfigurationError, match="expected different names, got 'one' twice"):
        read_tasks([files[0], files[0]], 0)
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: no such file"):
        read_tasks([tmp_path / "nowhere.yaml"], 0)
    (tmp_path / "one" / "heldout" / "manifest.json").unlink()
    with pytest.raises(ConfigurationError, match="heldout: expected a set, got none at"):
        read_tasks(files[:1], 0)


@pytest.fixture
def sequence(tmp_path, monkeypatch):
    """Three tasks with heads of their own, of which the run has learned the first; a body is its run's number."""
    place, tasks, models = SimpleNamespace(path=tmp_path), [], {}
    for number, head in enumerate(("lm", "classification", "regression")):
        tasks.append(SimpleNamespace(name=head, signature=((head,), ()), config=None, shards=place, heldout=place))
        family = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(family.weight, number)
        models[tmp_path / head] = SimpleNamespace(family=family, config=SimpleNamespace(targets={head: head}))
    monkeypatch.setattr(task_sequence, "open_run", lambda run: SimpleNamespace(model=models[run]))
    options = ForgettingOptions(tasks=[*models], output=tmp_path, learned=1)
    return task_sequence.TaskSequence(next(iter(models)), tasks, options, ()), models


def test_a_task_is_scored_with_its_own_heads_on_the_last_body(sequence):
    tasks, (runs, models) = sequence[0], zip(*sequence[1].items(), strict=True)
    assert tasks._model_for_task(models[1], runs[:2], 2, 2) is None  # nothing has learned its heads
    found = [tasks._model_for_task(models[2], runs, number, 3) for number in range(3)]
    assert found == [*models]
    assert [model.family.weight.item() for model in found] == [2, 2, 2]
