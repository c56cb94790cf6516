"""A process killed before or after any rename: the same command again ends with every bit of a
straight run."""

import json
import shutil
import signal

import pytest

from clozeline.run_status import read_status
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint, steps_in
from clozeline.train.logs.json_lines import read_lines
from tests.matrices import mark_slow_but
from tests.train import faulty
from tests.train.aftermath import run_checked
from tests.train.masked_set import write_config, write_masked_sets

FIRST = 2
LAST = 6
"""Steps of the first start, which is not disturbed, and of the second."""
SETTINGS = {
    "checkpoint__every": 2,
    "checkpoint__keep_last": 1,
    "evaluate__every": 2,
    "evaluate__max_rows": 8,
}
STEPS = [f"step-{step:08d}" for step in (2, 4, 6)]


def save(step):
    """Names that are put in place by a save that removes the one before it, and by the evaluation
    after it."""
    return [
        "checkpoint.json",
        f"step-{step:08d}",
        "latest",
        f".tmp-old-step-{step - 2:08d}",
        "checkpoint.json",
    ]


RENAMES = ["config.yaml", "sets.json", *save(4), *save(6)]
"""All renames of the second start, without those of status.json, metrics.prom and the report."""
STATUSES = 7
"""Renames of status.json; the last says that the run is done. Where steps take a second, there is
one more for each."""
POINTS = [
    *((name, RENAMES[: at + 1].count(name)) for at, name in enumerate(RENAMES)),
    *(("status.json", number) for number in range(1, STATUSES + 1)),
    ("report.html", 1),
]
USUAL = [("sets.json", 1, "before"), (STEPS[1], 1, "after")]
"""Kills of `make test`: one for each kind of file that a resume reads."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    shards = write_masked_sets(folder / "corrupt")
    write_config(folder / "train.yaml", shards, folder / "run", **SETTINGS)
    assert go(folder, faulty.train_normally, steps=FIRST).codes == [0]
    return folder


@pytest.fixture(scope="module")
def straight(begun, tmp_path_factory):
    """Every bit that an undisturbed run logs; its renames are those listed here."""
    folder = copied(begun, tmp_path_factory.mktemp("straight"))
    finished = go(folder, faulty.kill_at_replace, "nothing", 1, "before")

    assert finished.codes == [0]

    seen = json.loads(finished.outputs[0].splitlines()[-1])

    unordered = ("status.json", "metrics.prom", "report.html")
    assert [name for name in seen if name not in unordered] == RENAMES
    assert seen.count("status.json") >= STATUSES
    assert seen.count("report.html") >= 1, (
        "at the end, and at saves while that costs little of the run's time"
    )

    return logged(folder)


def copied(begun, folder):
    shutil.copytree(begun / "run", folder / "run")
    shutil.copy(begun / "train.yaml", folder)
    return folder


def go(folder, function, *arguments, steps=LAST):
    words = ["--config", str(folder / "train.yaml"), f"output={folder / 'run'}", f"steps={steps}"]
    return run_checked(1, function, *arguments, *words, folder=folder)


def logged(folder):
    """Return the losses, norms and held-out results of each step."""
    records = read_lines(folder / "run" / "metrics.jsonl")
    return [
        [
            one["step"],
            *(str(one.get(key)) for key in ("loss", "gradient_norm", "heldout")),
        ]
        for one in records
    ]


@pytest.mark.parametrize(
    ("name", "occurrence", "when"),
    mark_slow_but(USUAL, [(*point, when) for when in ("before", "after") for point in POINTS]),
)
def test_a_kill_at_any_rename_costs_no_bit(begun, straight, tmp_path, name, occurrence, when):
    folder = copied(begun, tmp_path)

    assert go(folder, faulty.kill_at_replace, name, occurrence, when).codes == [-signal.SIGKILL]

    checkpoints = folder / "run" / "checkpoints"
    whole = steps_in(checkpoints)

    assert whole, "one is always there"

    for path in whole:
        StoredCheckpoint.open(path)
    again = go(folder, faulty.train_normally)

    assert again.codes == [0], again.errors
    assert logged(folder) == straight
    assert [path.name for path in steps_in(checkpoints)] == [STEPS[-1]]
    assert (checkpoints / "latest").read_text() == f"{STEPS[-1]}\n"

    status = read_status(folder / "run")

    assert (
        status.state,
        status.step,
        status.checkpoint,
    ) == ("done", LAST, STEPS[-1])
    assert f"{logged(folder)[-1][0]:,}" in (folder / "run" / "report.html").read_text(
        encoding="utf-8"
    )

    left = [
        path
        for path in (folder / "run").rglob("*")
        if path.name.startswith(".tmp") or path.suffix == ".tmp"
    ]

    assert left == []
