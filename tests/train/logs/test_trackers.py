"""Calls of the adapters, as modules in the place of the services' own record them.

No service is asked.
"""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.trackers import check_tracker
from tests.refusals import refused

CONFIG = {"steps": 8, "model.dim": 20}
WARNING = "warning: log.tracker: "
CONTINUES = "training continues without it\n"


@pytest.fixture
def calls(monkeypatch):
    """Calls of both modules, in order."""
    found = []

    def recorded(name, answer=None):
        return lambda *args, **kwargs: (found.append((name, *args, kwargs)), answer)[1]

    wandb = ModuleType("wandb")
    mlflow = ModuleType("mlflow")
    run = SimpleNamespace(log=recorded("log"), finish=recorded("finish"))
    wandb.init = recorded("init", run)
    for name in ("start_run", "log_dict", "log_metrics", "end_run"):
        setattr(mlflow, name, recorded(name))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    return found


def journal(folder, name, rank=0):
    folder.mkdir(exist_ok=True)
    begun = Journal(folder, LogConfig(tensorboard=False, tracker=name), rank)
    begun.begin(0)
    begun.track(CONFIG)
    return begun


def test_calls_of_weights_and_biases(tmp_path, calls):
    first = journal(tmp_path / "run", "wandb")
    first.step(
        {
            "step": 1,
            "loss": 2.5,
            "losses": {"lm": 2.5},
            "gradient_norm": float("inf"),
            "done": True,
        }
    )
    first.step({"step": 1, "heldout": {"dev": {"loss": 3.0}}})
    first.close()

    assert calls == [
        (
            "init",
            {"dir": str(tmp_path / "run"), "name": "run", "resume": "allow", "config": CONFIG},
        ),
        ("log", {"step": 1, "loss": 2.5, "losses/lm": 2.5}, {"step": 1}),
        ("log", {"step": 1, "heldout/dev/loss": 3.0}, {"step": 1}),
        ("finish", {"exit_code": 0}),
    ]


def test_calls_of_mlflow(tmp_path, calls):
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
    ("name", "end"),
    [
        ("wandb", ("finish", {"exit_code": 1})),
        ("mlflow", ("end_run", {"status": "FAILED"})),
    ],
)
def test_a_failed_run_is_one_at_the_service_and_only_the_first_rank_sends(
    tmp_path, calls, name, end
):
    for rank in (1, 0):
        one = journal(tmp_path / "run", name, rank)
        one.fail(ConfigurationError("wrong"))
        one.close()
        assert bool(calls) == (rank == 0)

    assert calls[-1] == end


def test_a_service_that_fails_ends_sending_and_not_the_run(tmp_path, calls, monkeypatch, capsys):
    def refuse(*_, **__):
        raise ConnectionError("no route to host")

    one = journal(tmp_path / "run", "mlflow")
    monkeypatch.setattr(sys.modules["mlflow"], "log_metrics", refuse, raising=False)
    for step in (1, 2):
        one.step({"step": step, "loss": 2.5})
    one.close()

    assert [call[0] for call in calls] == ["start_run", "log_dict"]
    assert (
        capsys.readouterr().err
        == f"{WARNING}mlflow: ConnectionError: no route to host; {CONTINUES}"
    )
    assert len(read_lines(tmp_path / "run" / "metrics.jsonl")) == 2


def test_a_service_that_is_not_installed_is_refused(monkeypatch):
    check_tracker(None)

    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with refused(f"{name} is not installed: run `pip install {name}`"):
            check_tracker(name)
