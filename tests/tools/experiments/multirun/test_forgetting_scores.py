"""Forgetting and backward transfer against a plain computation, the table, and files of tasks."""

import statistics

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.forgetting_scores import outcome, summary, summary_lines
from clozeline.tools.experiments.multirun.task_sequence import _sum_fisher_files, read_tasks
from tests.train.masked_set import write_masked_sets


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
    assert lines[0] == "plain, 2 seeds"
    assert lines[1].split() == ["novels", "(nats)", "sst2", "(accuracy)"]
    assert lines[2].split() == ["before", "2.0000", "-"]
    assert lines[3].split() == ["after", "sst2", "3.2500", "0.8000"]
    assert lines[-2].startswith("plain   forgetting of novels 1.2500 ± 0.3536, backward transfer -1.2500 ± 0.3536")
    assert lines[-1] == "replay  forgetting of novels 0.1000, backward transfer -0.1000, last task 0.8000"


@pytest.fixture
def files(tmp_path):
    """Tasks `one` and `two`; the second names the first one's held-out set."""
    found = []
    for name in ("one", "two"):
        manifest = write_masked_sets(tmp_path / name, name=name)
        heldout = f"heldout: {tmp_path / 'one' / 'heldout'}\n" if name == "two" else ""
        found.append(tmp_path / f"{name}.yaml")
        found[-1].write_text(f"name: {name}\nshards: {manifest.parent}\n{heldout}", encoding="utf-8")
    return found


def test_mistakes_are_named(files, tmp_path):
    with pytest.raises(ConfigurationError, match="learned: expected fewer than the 2 tasks, got 2"):
        read_tasks(files, 2)
    with pytest.raises(ConfigurationError, match="expected different names, got 'one' twice"):
        read_tasks([files[0], files[0]], 0)
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: no such file"):
        read_tasks([tmp_path / "nowhere.yaml"], 0)
    (tmp_path / "one" / "heldout" / "manifest.json").unlink()
    with pytest.raises(ConfigurationError, match="heldout: expected a set, got none at"):
        read_tasks(files[:1], 0)


def test_information_is_summed_at_the_last_weights(tmp_path):
    for name, value in (("first", 1.0), ("second", 2.0)):
        tensors = {"fisher/a": torch.full((3,), value), "weight/a": torch.full((3,), 10 * value)}
        save_file(tensors, tmp_path / name)
    found = load_file(_sum_fisher_files([tmp_path / "first", tmp_path / "second"], tmp_path / "both"))
    assert {name: values.tolist() for name, values in found.items()} == {"fisher/a": [3.0] * 3, "weight/a": [20.0] * 3}
