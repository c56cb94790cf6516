"""Trainings of tasks in sequence, their commands and the matrix of their scores, without a training."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.tools.experiments.multirun import runner, task_sequence
from clozeline.tools.experiments.multirun.forgetting_scores import ForgettingOptions

TASKS = ("one", "two", "three")


@pytest.fixture
def commands(monkeypatch):
    """The commands of the tool; a run is scored by its name and the set's, and a Fisher file holds the run's number."""
    seen = []

    def step(*command, **_):
        name, *words = map(str, command[1:])
        seen.append((name, *words))
        if name == "fisher":
            number = 1.0 + TASKS.index(Path(words[0]).name) if Path(words[0]).name in TASKS else 1.0
            path = Path(words[1].removeprefix("output="))
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file({name: torch.tensor([number]) for name in ("fisher/a", "weight/a")}, path)

    for module in (task_sequence, runner):
        monkeypatch.setattr(module, "run_step", step)
    heads = SimpleNamespace(targets={"lm": "lm"})
    monkeypatch.setattr(
        task_sequence, "open_run", lambda run: SimpleNamespace(model=SimpleNamespace(run=run.name, config=heads))
    )
    monkeypatch.setattr(
        task_sequence, "heldout_score", lambda model, heldout, rows: ("nats", f"{model.run} on {heldout.path}, {rows}")
    )
    return seen


@pytest.mark.parametrize("method", ["plain", "replay", "ewc", "l2_sp"])
def test_each_task_is_trained_from_the_last_run_and_all_are_scored(commands, tmp_path, method):
    tasks = [
        SimpleNamespace(
            name=name, signature=(("lm",), ()), config=Path("own.yaml") if name == "three" else None,
            shards=SimpleNamespace(path=f"{name}/train"), heldout=SimpleNamespace(path=f"{name}/dev"),
        )
        for name in TASKS
    ]  # fmt: skip
    options = ForgettingOptions(
        tasks=[*TASKS], output=tmp_path, learned=1, replay=0.5, strength=7.0, alpha=0.3, rows=5, heldout_rows=9
    )
    sequence = task_sequence.TaskSequence(tmp_path / "body", tasks, options, ("steps=4",))
    matrix = sequence.learn(method, 3)
    assert matrix == [[f"{run} on {task}/dev, 9" for task in TASKS] for run in ("body", "two", "three")]
    branch = tmp_path / "seed-3" / method
    resets = ["init_parts=[]", "regularizer=null", "data.weights=[]", "data.phases=[]", "schedule.steps=null"]
    wanted = []
    for name, before, config, reset in (
        ("two", tmp_path / "body", str(tmp_path / "body" / "config.yaml"), resets),
        ("three", branch / "two", "own.yaml", []),
    ):
        words = {"model.init_from": before, "data.shards": f"{name}/train", "output": branch / name, "seed": 3}
        words |= {"data.seed": 3, "data.heldout": f"{name}/dev", **dict(word.split("=", 1) for word in reset)}
        if method == "replay":
            sets, shares = {"two": ('"one/train"', "0.5"), "three": ('"one/train", "two/train"', "0.25, 0.25")}[name]
            words |= {"data.shards": f'["{name}/train", {sets}]', "data.weights": f"[0.5, {shares}]"}
        if method == "ewc":
            old = {"two": "one", "three": "two"}[name]
            told = (f"output={branch}/fisher-{old}.safetensors", f"data={old}/train", "rows=5")
            wanted.append(("fisher", str(before), *told))
            file = {"two": "fisher-one", "three": "fisher-of-2"}[name]
            words["regularizer"] = f"{{name: ewc, fisher: {branch}/{file}.safetensors, strength: 7.0}}"
        if method == "l2_sp":
            words |= {"regularizer": "{name: l2_sp, alpha: 0.3}", "optimizer.weight_decay": "0"}
        wanted.append(("train", "--config", config, *(f"{key}={value}" for key, value in words.items()), "steps=4"))
    assert commands == wanted
    if method == "ewc":  # the second task's run had just learned it
        found = load_file(branch / "fisher-of-2.safetensors")
        assert {name: value.item() for name, value in found.items()} == {"fisher/a": 3.0, "weight/a": 2.0}
    commands.clear()
    assert (sequence.learn(method, 3), commands) == (matrix, [])
    assert {path.name for path in (tmp_path / "scores").rglob("*.json")} == {"before.json", "two.json", "three.json"}
