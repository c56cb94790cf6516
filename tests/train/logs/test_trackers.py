"""Calls of the adapters, as modules in the place of the services' own record them; no service is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import ConfigurationError
from train.logs.config import LogConfig
from train.logs.journal import Journal
from train.logs.lines import read_lines
from train.logs.trackers import check_tracker

CONFIG = {"steps": 8, "model.dim": 20}


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
    again.failed(ConfigurationError("wrong"))
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
    failed.failed(ConfigurationError("wrong"))
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


def test_a_service_that_fails_ends_sending_and_not_the_run(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no connection")

    one = journal(tmp_path / "run", "mlflow")
    monkeypatch.setattr(sys.modules["mlflow"], "log_metrics", refuse, raising=False)
    for step in (1, 2):
        one.step({"step": step, "loss": 2.5})
    one.close()
    assert [call[0] for call in calls] == ["start_run", "log_params"]
    assert capsys.readouterr().err == "mlflow: no connection; training continues, and sends no more\n"
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    monkeypatch.setattr(sys.modules["mlflow"], "start_run", refuse, raising=False)
    with pytest.raises(ConfigurationError, match=r"log\.tracker: mlflow does not begin a run: no connection"):
        journal(tmp_path / "other", "mlflow")


def test_a_service_that_is_down_ends_no_run_that_continues(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a damaged file with the service's name of the run."""
    journal(tmp_path / "run", "wandb").close()

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(sys.modules["wandb"], "init", refuse, raising=False)
    again = Journal(tmp_path / "run", LogConfig(tensorboard=False, tracker="wandb"), 0)
    again.begin(4)
    again.track(CONFIG, resumed=True)
    again.step({"step": 5, "loss": 2.5})
    again.close()
    said = capsys.readouterr().err
    assert "wandb does not begin a run: no route to host" in said
    assert said.endswith("training continues, and sends nothing\n")
    (tmp_path / "run" / "tracker.json").write_bytes(b"\xff")
    again.track(CONFIG, resumed=True)
    assert "training continues, and sends nothing" in capsys.readouterr().err
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == [5]


def test_a_service_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tracker(None)
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ConfigurationError, match=rf"log\.tracker: {name} is not installed .*`pip install {name}`"):
            check_tracker(name)
