"""Trainings are launched once and resumed; a folder of runs is for one set of words."""

import signal
import subprocess
import sys
import time

import pytest
import yaml

from clozeline.errors import ConfigurationError
from clozeline.tools.start.multirun import runner
from clozeline.tools.start.multirun.runner import (
    ExperimentTraining,
    collect_all,
    write_settings,
)
from tests.matrices import mark_slow_after


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_training_is_started_while_a_result_is_missing(monkeypatch, tmp_path, at_once):
    started = []
    monkeypatch.setattr(
        runner, "run_step", lambda *command, **_: started.append([str(word) for word in command])
    )

    def write(path):
        path.write_text(str(len(started)), encoding="utf-8")

    def training(seed):
        results = {tmp_path / f"{name}-{seed}": write for name in ("dev", "test")}
        return ExperimentTraining(
            tmp_path / f"{seed}.yaml", results, keys={"seed": seed}, overrides=["steps=2"]
        )

    (tmp_path / "dev-0").write_text("scored earlier", encoding="utf-8")
    for _ in range(2):
        collect_all([training(seed) for seed in range(2)], at_once)
    configs = [tmp_path / f"{seed}.yaml" for seed in range(2)]

    assert sorted(started) == [
        ["clozeline", "train", "--config", str(path), "steps=2"] for path in configs
    ]
    assert [yaml.safe_load(path.read_text(encoding="utf-8")) for path in configs] == [
        {"seed": 0},
        {"seed": 1},
    ]
    assert (tmp_path / "dev-0").read_text(encoding="utf-8") == "scored earlier"
    assert all((tmp_path / name).exists() for name in ("test-0", "dev-1", "test-1"))


STEPS = """
import sys
from clozeline.configuration.config import NoOptions
from clozeline.tools.command import run_tool
from clozeline.tools.start.multirun.runner import run_at_once, run_step

training = '''
import os, signal, sys, time
from pathlib import Path

folder = Path(sys.argv[1])
def save(*_):
    time.sleep(1)
    (folder / "saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
folder.mkdir()
(folder / "pid").write_text(str(os.getppid()))
time.sleep(600)
'''
jobs = [lambda number=number: run_step("python", "-c", training, f"{sys.argv[1]}/{number}") for number in range(4)]
together = lambda _: run_at_once(jobs, 2) if sys.argv[2] == "2" else jobs[0]()
sys.exit(run_tool("", [], NoOptions, together))
"""


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(("name", "code"), [("SIGHUP", 75), ("SIGTERM", 75), ("SIGINT", 130)])
@pytest.mark.parametrize("at_once", mark_slow_after(1, [2, 1]))
def test_trainings_save_when_their_tool_is_told_to_stop(tmp_path, name, code, at_once):
    """The signal comes twice, as from a lost connection; nothing further is started."""
    command = [sys.executable, "-c", STEPS, str(tmp_path), str(at_once)]
    with subprocess.Popen(command) as tool:
        wait_until(lambda: len(list(tmp_path.glob("*/pid"))) == at_once, tool)
        tool.send_signal(signal.Signals[name])
        if name != "SIGINT":
            tool.send_signal(signal.Signals[name])
        assert tool.wait(120) == code

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        str(number) for number in range(at_once)
    ]
    assert len(list(tmp_path.glob("*/saved"))) == at_once


def wait_until(condition, process):
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def test_a_folder_is_for_one_thing(tmp_path):
    """From its first run on: what a command leaves that is refused before does not bind the next
    one."""
    note = tmp_path / "runs" / "words.json"
    write_settings(note, {"task": "other"})
    write_settings(note, {"task": "a", "seeds": [1]})
    (tmp_path / "runs" / "seed-0").mkdir()
    (tmp_path / "runs" / "seed-0" / "config.yaml").write_text("", encoding="utf-8")
    write_settings(note, {"seeds": [1], "task": "a"})

    with pytest.raises(
        ConfigurationError,
        match=r"runs holds runs with other settings: task was 'a', is 'b'; choose",
    ):
        write_settings(note, {"task": "b", "seeds": [1]})

    with pytest.raises(ConfigurationError, match="more was None, is 1"):
        write_settings(note, {"task": "a", "seeds": [1], "more": 1})
    note.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"words\.json: is damaged"):
        write_settings(note, {"task": "a", "seeds": [1]})
