"""Calls of the adapters, as modules in the place of the services' own record them; no service is asked."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.trackers import check_tracker
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets

CONFIG = {"steps": 8, "model.dim": 20}
WARNING, CONTINUES = "warning: log.tracker: ", "training continues without it\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of both modules, in order."""
    found: list[Any] = []

    def recorded(name: str, answer: Any = None) -> Any:
        return lambda *args, **kwargs: (found.append((name, *args, kwargs)), answer)[1]

    wandb, mlflow = ModuleType("wandb"), ModuleType("mlflow")
    run = SimpleNamespace(id="w1", log=recorded("log"), finish=recorded("finish"))
    wandb.init = recorded("init", run)  # type: ignore[attr-defined]
    begun = SimpleNamespace(info=SimpleNamespace(run_id="m1"))
    for name, answer in (("start_run", begun), ("log_params", None), ("log_metrics", None), ("end_run", None)):
        setattr(mlflow, name, recorded(name, answer))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    return found


def journal(folder: Path, name: str, rank: int = 0, config: dict[str, Any] = CONFIG) -> Journal:
    folder.mkdir(exist_ok=True)
    begun = Journal(folder, LogConfig(tensorboard=False, tracker=name), rank)
    begun.begin(0)
    begun.track(config)
    return begun


def test_weights_and_biases(tmp_path: Path, calls: list[Any]) -> None:
    first = journal(tmp_path / "run", "wandb")
    first.step({"step": 1, "loss": 2.5, "losses": {"lm": 2.5}, "gradient_norm": float("inf"), "done": True})
    first.extend({"step": 1}, {"heldout": {"dev": {"loss": 3.0}}})
    first.close()
    again = journal(tmp_path / "run", "wandb")
    again.fail(ConfigurationError("wrong"))
    again.close()
    begin = {"dir": str(tmp_path / "run"), "name": "run", "resume": "allow", "config": CONFIG}
    assert calls == [
        ("init", {**begin, "id": None}),
        ("log", {"step": 1, "loss": 2.5, "losses/lm": 2.5}, {"step": 1}),
        ("log", {"heldout/dev/loss": 3.0}, {"step": 1}),
        ("finish", {"exit_code": 0}),
        ("init", {**begin, "id": "w1"}),
        ("finish", {"exit_code": 1}),
    ]


def test_mlflow(tmp_path: Path, calls: list[Any]) -> None:
    config = {f"key.{n}": n for n in range(150)}
    for step in (1, 2):
        one = journal(tmp_path / "run", "mlflow", config=config)
        one.step({"step": step, "loss": 2.5})
        one.close()
    ends = [("end_run", {"status": "FINISHED"})]
    assert calls == [
        ("start_run", {"run_id": None, "run_name": "run"}),
        ("log_params", {f"key.{n}": n for n in range(100)}, {}),
        ("log_params", {f"key.{n}": n for n in range(100, 150)}, {}),
        *[("log_metrics", {"step": 1, "loss": 2.5}, {"step": 1}), *ends],
        *[("start_run", {"run_id": "m1", "run_name": "run"})],
        *[("log_metrics", {"step": 2, "loss": 2.5}, {"step": 2}), *ends],
    ]
    failed = journal(tmp_path / "run", "mlflow", config=config)
    failed.fail(ConfigurationError("wrong"))
    failed.close()
    assert calls[-1] == ("end_run", {"status": "FAILED"})


def test_only_the_first_rank_sends(tmp_path: Path, calls: list[Any]) -> None:
    one = journal(tmp_path / "run", "wandb", rank=1)
    one.step({"step": 1, "loss": 2.5})
    one.close()
    assert not calls


def test_another_service_begins_a_run_of_its_own(tmp_path: Path, calls: list[Any]) -> None:
    journal(tmp_path / "run", "wandb").close()
    journal(tmp_path / "run", "mlflow").close()
    assert ("start_run", {"run_id": None, "run_name": "run"}) in calls


def refuse(*_: Any, **__: Any) -> Any:
    raise ConnectionError("no route to host")


def test_a_service_that_fails_ends_sending_and_not_the_run(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = journal(tmp_path / "run", "mlflow")
    monkeypatch.setattr(sys.modules["mlflow"], "log_metrics", refuse, raising=False)
    for step in (1, 2):
        one.step({"step": step, "loss": 2.5})
    one.close()
    assert [call[0] for call in calls] == ["start_run", "log_params"]
    assert capsys.readouterr().err == f"{WARNING}mlflow: ConnectionError: no route to host; {CONTINUES}"
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("name", [b"", b'{"tracker": "wandb", "identity": "w1"}', b"\xff"])
def test_a_service_that_is_down_ends_no_start(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: bytes
) -> None:
    """Of a new run, of one that the service knows, and of one whose name there is damaged."""
    run = tmp_path / "run"
    run.mkdir()
    if name:
        (run / "tracker.json").write_bytes(name)
    monkeypatch.setattr(sys.modules["wandb"], "init", refuse, raising=False)
    one = journal(run, "wandb")
    one.step({"step": 1, "loss": 2.5})
    one.close()
    said = capsys.readouterr().err
    assert said.startswith(f"{WARNING}wandb: ")
    assert said.endswith(CONTINUES)
    assert len(said.splitlines()) == 1
    assert [line["step"] for line in read_lines(run / "metrics.jsonl")] == [1]
    assert not calls


def tracked(world: World, config: Path, steps: int, broken: str) -> tuple[int, str, list[str]]:
    """A run with a service in which a call fails; returns (exit code, stderr, calls that worked)."""
    found: list[str] = []
    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    module.init = lambda **_: (found.append("init"), run_there)[1]  # type: ignore[attr-defined]
    run_there = SimpleNamespace(
        id="w1", log=lambda *_, step: found.append(f"log {step}"), finish=lambda **_: found.append("finish")
    )
    if broken:
        setattr(module if broken == "init" else run_there, broken, refuse)
    error = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(error):
        patch.setitem(sys.modules, "wandb", module)
        code = run(load_config(TrainConfig, config, [f"steps={steps}", "log.tracker=wandb"]), joined=world)
    return code, error.getvalue(), found


@pytest.mark.parametrize("broken", ["init", "log", "finish"])
def test_whole_runs_train_without_their_service(one_rank: RankPool, tmp_path: Path, broken: str) -> None:
    """It is down at the first start, and again at a resume; then it is there."""
    shards = write_masked_sets(tmp_path / "sets", rows=48, heldout=10)
    config = write_config(tmp_path / "run.yaml", shards, tmp_path / "run")
    worked = {"init": [], "log": ["init"], "finish": ["init", "log 1", "log 2", "log 2"]}[broken]
    for steps in (2, 4):
        ((code, error, calls),) = one_rank.run(tracked, config, steps, broken)
        assert (code, error) == (0, f"{WARNING}wandb: ConnectionError: no route to host; {CONTINUES}")
        assert calls == [call.replace("2", str(steps)).replace("1", str(steps - 1)) for call in worked]
    ((code, error, calls),) = one_rank.run(tracked, config, 6, "")
    assert (code, error, calls) == (0, "", ["init", "log 5", "log 6", "log 6", "finish"])
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == list(range(1, 7))


def test_a_module_that_cannot_be_imported_ends_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is installed, and another package that it uses is not the one it expects."""
    (tmp_path / "wandb.py").write_text("raise AttributeError('np.float_ was removed')")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    check_tracker("wandb")
    journal(tmp_path / "run", "wandb").close()
    assert capsys.readouterr().err == f"{WARNING}wandb: AttributeError: np.float_ was removed; {CONTINUES}"


def test_a_service_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tracker(None)
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ConfigurationError, match=f"{name} is not installed: run `pip install {name}`"):
            check_tracker(name)
