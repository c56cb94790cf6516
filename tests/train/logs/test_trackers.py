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
    """Calls of the module, in order."""
    found = []

    def recorded(name, answer=None):
        return lambda *args, **kwargs: (found.append((name, *args, kwargs)), answer)[1]

    wandb = ModuleType("wandb")
    run = SimpleNamespace(log=recorded("log"), finish=recorded("finish"))
    wandb.init = recorded("init", run)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    return found


def journal(folder, rank=0):
    folder.mkdir(exist_ok=True)
    begun = Journal(folder, LogConfig(tensorboard=False, tracker="wandb"), rank)
    begun.begin(0)
    begun.track(CONFIG)
    return begun


def test_calls_of_weights_and_biases(tmp_path, calls):
    first = journal(tmp_path / "run")
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


def test_a_failed_run_is_one_at_the_service_and_only_the_first_rank_sends(tmp_path, calls):
    for rank in (1, 0):
        one = journal(tmp_path / "run", rank)
        one.fail(ConfigurationError("wrong"))
        one.close()
        assert bool(calls) == (rank == 0)

    assert calls[-1] == ("finish", {"exit_code": 1})


def test_a_service_that_fails_ends_sending_and_not_the_run(tmp_path, calls, monkeypatch, capsys):
    def refuse(*_, **__):
        raise ConnectionError("no route to host")

    one = journal(tmp_path / "run")
    monkeypatch.setattr(one._trackers["log.tracker: wandb"]._run, "log", refuse)
    for step in (1, 2):
        one.step({"step": step, "loss": 2.5})
    one.close()

    assert [call[0] for call in calls] == ["init"]
    assert (
        capsys.readouterr().err == f"{WARNING}wandb: ConnectionError: no route to host; {CONTINUES}"
    )
    assert len(read_lines(tmp_path / "run" / "metrics.jsonl")) == 2


def test_a_service_that_is_not_installed_is_refused(monkeypatch):
    check_tracker(None)

    monkeypatch.setitem(sys.modules, "wandb", None)
    with refused("wandb is not installed: run `pip install wandb`"):
        check_tracker("wandb")
