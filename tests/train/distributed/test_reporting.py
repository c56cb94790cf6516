"""Reports that fail: whole runs train to their last step all the same, and say once what is
missing."""

import contextlib
import io

import pytest

from tests.train import runs
from tests.train.masked_set import write_config

EVERY_PART = [
    *(
        "clozeline.train.logs.data_health.LoadingHealth.observe_step",
        "clozeline.train.logs.spikes.Spikes.detect",
    ),
    "clozeline.train.logs.trackers.TensorBoard.log",
    *("clozeline.train.logs.display.Display._show", "clozeline.train.logs.display.Display.heldout"),
    *("clozeline.train.logs.recorder.write_report", "clozeline.train.logs.recorder.closing_lines"),
]
WARNINGS = {"the health of the data", "spikes of the loss", "TensorBoard", "lines of steps"}
WARNINGS |= {"results on held-out sets", "report.html", "closing lines"}


def broken(*_, **__):
    raise ZeroDivisionError("broken")


def start(world, config, parts, words):
    """A run in which calls of these parts fail; returns (exit code, lines of stderr)."""
    error = io.StringIO()

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(error):
        for part in parts:
            patch.setattr(part, broken)
        code = runs.start(world, config, words)[0]

    return code, error.getvalue().splitlines()


@pytest.fixture
def config(tmp_path, shards):
    return write_config(
        tmp_path / "run.yaml", shards, tmp_path / "run", evaluate__every=4, checkpoint__every=4
    )


def test_no_report_ends_a_run(one_rank, tmp_path, config):
    ((code, error),) = one_rank.run(start, config, EVERY_PART, ["log.tensorboard=true"])

    assert code == 0

    told = [line for line in error if line.startswith("warning: ")]

    assert {line.split(": ")[1] for line in told} == WARNINGS
    assert len(told) == len(WARNINGS), "each is said once"
    assert all("ZeroDivisionError: broken; training continues without it" in line for line in told)
    assert len(runs.steps(tmp_path / "run")) == 8
    assert len(runs.evaluations(tmp_path / "run")) == 2
