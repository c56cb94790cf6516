"""Trainings are launched once and resumed; a folder of runs is for one set of words."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.output_lock import hold_output
from clozeline.tools.start.demo import DemoOptions
from clozeline.tools.start.multirun import runner
from clozeline.tools.start.multirun.runner import (
    claim_folder,
    run_plan,
    tell_time,
    training_step,
)
from tests.matrices import mark_slow_after
from tests.sealed_lines import sealed


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_command_is_run_while_a_result_is_missing(monkeypatch, tmp_path, capsys, at_once):
    started = []
    monkeypatch.setattr(
        runner, "run_step", lambda *command, **_: started.append([str(word) for word in command])
    )

    def write(path):
        path.write_text(str(len(started)), encoding="utf-8")

    def training(seed):
        results = {tmp_path / f"{name}-{seed}": write for name in ("dev", "test")}
        return training_step(tmp_path / "x.yaml", tmp_path / f"seed-{seed}", ["steps=2"], results)

    (tmp_path / "dev-0").write_text("scored earlier", encoding="utf-8")
    for _ in range(2):
        run_plan([training(seed) for seed in range(2)], at_once)

    assert sorted(started) == [
        ["clozeline", "train", "--config", str(tmp_path / "x.yaml"), "steps=2", f"output={run}"]
        for run in (tmp_path / "seed-0", tmp_path / "seed-1")
    ]
    assert (tmp_path / "dev-0").read_text(encoding="utf-8") == "scored earlier"
    assert all((tmp_path / name).exists() for name in ("test-0", "dev-1", "test-1"))
    assert [line for line in capsys.readouterr().out.splitlines() if "to run" in line] == [
        "2 of 2 commands to run",
    ]


def test_the_time_is_measured_by_the_first_steps(tmp_path, capsys):
    """21 steps of 0.5 s of each of 2 runs of 240 steps: 240 s."""

    def write(steps):
        lines = [sealed(step=n, loss=1.0, time=n / 2) for n in range(1, steps)]
        (tmp_path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))

    tell = tell_time(tmp_path, 2)

    (tmp_path / "events.jsonl").write_text(sealed(event="start", steps=240) + "\n")
    assert not tell()
    write(10)
    assert not tell()
    write(22)
    assert tell()

    assert capsys.readouterr().out.startswith("2 runs, about 4 min in all")


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
    facts = {"seeds": [1], "input": "https://h/x?key=SEKRET"}
    claim_folder(note, DemoOptions(output=tmp_path, steps=1), "output")
    claim_folder(note, options := DemoOptions(output=tmp_path, steps=2), "output", **facts)
    (tmp_path / "runs" / "seed-0").mkdir()
    (tmp_path / "runs" / "seed-0" / "events.jsonl").write_text("", encoding="utf-8")
    claim_folder(note, replace(options, output=tmp_path / "other"), "output", **facts)

    assert "SEKRET" not in note.read_text()

    with pytest.raises(
        ConfigurationError,
        match=r"runs holds results of other settings: steps was 2, is 3; choose",
    ):
        claim_folder(note, replace(options, steps=3), "output", **facts)

    with pytest.raises(ConfigurationError, match="more was None, is 1"):
        claim_folder(note, options, "output", **facts, more=1)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sets").touch()
    with pytest.raises(ConfigurationError, match="sets"):
        claim_folder(tmp_path / "theirs" / "words.json", options)
    with pytest.raises(ConfigurationError, match="in use"), hold_output(note.parent):
        pass
    note.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"words\.json: is damaged"):
        claim_folder(note, options, "output", **facts)
