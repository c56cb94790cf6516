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

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.trackers import check_tracker
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.runs import start
from tests.train.runs import steps as steps_of

CONFIG = {"steps": 8, "model.dim": 20}
WARNING, CONTINUES = "warning: log.tracker: ", "training continues without it\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of both modules, in order."""
    found: list[Any] = []

    def recorded(name: str, answer: Any = None) -> Any:
        return lambda *args, **kwargs: (found.append((name, *args, kwargs)), answer)[1]

    wandb, mlflow = ModuleType("wandb"), ModuleType("mlflow")
    run = SimpleNamespace(log=recorded("log"), finish=recorded("finish"))
    wandb.init = recorded("init", run)  # type: ignore[attr-defined]
    for name in ("start_run", "log_dict", "log_metrics", "end_run"):
        setattr(mlflow, name, recorded(name))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    return found


def journal(folder: Path, name: str, rank: int = 0) -> Journal:
    folder.mkdir(exist_ok=True)
    begun = Journal(folder, LogConfig(tensorboard=False, tracker=name), rank)
    begun.begin(0)
    begun.track(CONFIG)
    return begun


def test_calls_of_weights_and_biases(tmp_path: Path, calls: list[Any]) -> None:
    first = journal(tmp_path / "run", "wandb")
    first.step({"step": 1, "loss": 2.5, "losses": {"lm": 2.5}, "gradient_norm": float("inf"), "done": True})
    first.step({"step": 1, "heldout": {"dev": {"loss": 3.0}}})
    first.close()
    assert calls == [
        ("init", {"dir": str(tmp_path / "run"), "name": "run", "resume": "allow", "config": CONFIG}),
        ("log", {"step": 1, "loss": 2.5, "losses/lm": 2.5}, {"step": 1}),
        ("log", {"step": 1, "heldout/dev/loss": 3.0}, {"step": 1}),
        ("finish", {"exit_code": 0}),
    ]


def test_calls_of_mlflow(tmp_path: Path, calls: list[Any]) -> None:
    one = journal(tmp_path / "run", "mlflow")
    one.step({"step": 1, "loss": 2.5})
    one.close()
    assert calls == [
        ("start_run", {"run_name": "run"}),
        ("log_dict", CONFIG, "config.json", {}),
        ("log_metrics", {"step": 1, "loss": 2.5}, {"step": 1}),
        ("end_run", {"status": "FINISHED"}),
    ]


@pytest.mark.parametrize(
    ("name", "end"), [("wandb", ("finish", {"exit_code": 1})), ("mlflow", ("end_run", {"status": "FAILED"}))]
)
def test_a_failed_run_is_one_at_the_service_and_only_the_first_rank_sends(
    tmp_path: Path, calls: list[Any], name: str, end: Any
) -> None:
    for rank in (1, 0):
        one = journal(tmp_path / "run", name, rank)
        one.fail(ConfigurationError("wrong"))
        one.close()
        assert bool(calls) == (rank == 0)
    assert calls[-1] == end


def refuse(*_: Any, **__: Any) -> Any:
    raise ConnectionError("no route to host")


def tracked(world: World, config: Path, steps: int, broken: str) -> tuple[int, str, list[str]]:
    """A run with a service in which a call fails; returns (exit code, stderr, calls that worked)."""
    found: list[str] = []
    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    module.init = lambda **_: (found.append("init"), run_there)[1]  # type: ignore[attr-defined]
    run_there = SimpleNamespace(
        log=lambda *_, step: found.append(f"log {step}"), finish=lambda **_: found.append("finish")
    )
    if broken:
        setattr(module if broken == "init" else run_there, broken, refuse)
    error = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(error):
        patch.setitem(sys.modules, "wandb", module)
        code, _ = start(world, config, [f"steps={steps}", "log.tracker=wandb"])
    return code, error.getvalue(), found


@pytest.mark.parametrize("broken", ["init", "log", "finish"])
def test_whole_runs_train_without_their_service(one_rank: RankPool, tmp_path: Path, shards: Path, broken: str) -> None:
    """It is down at the first start, and again at a resume; then it is there."""
    config = write_config(tmp_path / "run.yaml", shards, tmp_path / "run")
    worked = {"init": [], "log": ["init"], "finish": ["init", "log 1", "log 2", "log 2"]}[broken]
    for steps in (2, 4):
        ((code, error, calls),) = one_rank.run(tracked, config, steps, broken)
        assert (code, error) == (0, f"{WARNING}wandb: ConnectionError: no route to host; {CONTINUES}")
        assert calls == [call.replace("2", str(steps)).replace("1", str(steps - 1)) for call in worked]
    ((code, error, calls),) = one_rank.run(tracked, config, 6, "")
    assert (code, error, calls) == (0, "", ["init", "log 5", "log 6", "log 6", "finish"])
    assert len(steps_of(tmp_path / "run")) == 6


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
