"""Starts that cannot begin: one clear error with its code, and not one byte of what is there has
changed."""

import os
import resource
import shutil
import signal

import pytest

from tests.train.masked_set import write_config
from tests.train.runs import contents, start


@pytest.fixture(scope="module")
def trained(one_rank, tmp_path_factory, shards):
    """A run of four steps with two checkpoints, and its configuration."""
    folder = tmp_path_factory.mktemp("trained")
    changes = {"checkpoint__every": 2, "checkpoint__keep_last": 9}

    assert one_rank.run(
        start, write_config(folder / "train.yaml", shards, folder / "run", **changes), ["steps=4"]
    ) == [(0, "")]

    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def refused(ranks, folder, overrides, function=start):
    """Start, and return "CODE message"; everything below the folder is as it was."""
    before = contents(folder)
    results = ranks.run(function, folder / "train.yaml", [f"output={folder / 'run'}", *overrides])

    assert contents(folder) == before

    code, message = results[0]

    assert all(other == code for other, _ in results)
    assert "[Errno" not in message

    return f"{code} {message}"


def resume(ranks, folder):
    return ranks.run(start, folder / "train.yaml", [f"output={folder / 'run'}", "steps=6"])


def test_checkpoints_that_are_all_damaged(two_ranks, folder):
    for part in (folder / "run" / "checkpoints").glob("step-*/part-*"):
        part.write_bytes(part.read_bytes()[:-1])
    found = refused(two_ranks, folder, ["steps=6"])

    assert found.startswith("65 ")
    assert "holds 2 checkpoints, none of them is valid (step-00000004, step-00000002)" in found
    assert "start from step 0 in another output" in found

    refused(two_ranks, folder, ["steps=6", "resume=must"])
    found = refused(two_ranks, folder, ["resume=never"])

    assert found.startswith("64 ")
    assert "is not empty" in found
    assert (
        two_ranks.run(
            start, folder / "train.yaml", [f"output={folder / 'new'}", "resume=never", "steps=1"]
        )[0][0]
        == 0
    )


@pytest.mark.parametrize(
    ("name", "resume"),
    [
        ("manifest.json", "auto"),
        ("manifest.json", "never"),
        ("config.yaml", "auto"),
        ("metrics.jsonl", "auto"),
        ("report.html", "auto"),
        (".lock", "auto"),
        ("sets.json", "auto"),
        ("notes.tmp", "auto"),
        ("checkpoints/step-00000004/notes", "auto"),
    ],
)
def test_a_folder_of_others(one_rank, folder, name, resume):
    """A set of shards, or files of the user with the names of ours, of which no record tells."""
    shutil.rmtree(folder / "run")
    path = folder / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    found = refused(one_rank, folder, [f"resume={resume}"])

    assert found.startswith("64 ")
    assert name.split("/")[0] in found
    assert [file for file in (folder / "run").rglob("*") if file.is_file()] == [path]


def test_files_of_others_in_a_run_stay(one_rank, folder):
    run = folder / "run"
    theirs = [run / "report.html", run / "notes.tmp", run / "checkpoints/.tmp-mine"]
    theirs += [run / "checkpoints/step-00000002/notes"]
    for path in theirs:
        path.write_text("mine")
        os.utime(path, (0, 0))

    words = [f"output={run}", "steps=6", "checkpoint.keep_last=1"]
    assert one_rank.run(start, folder / "train.yaml", words)[0][0] == 0
    assert {path.read_text() for path in theirs} == {"mine"}
    assert not (run / "checkpoints/step-00000004").exists()
    assert (run / "clozeline-report.html").exists()


def on_a_full_disk(world, config, overrides):
    """No byte can be written to any file; needs no privileges."""
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    try:
        return start(world, config, overrides)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def test_an_output_that_cannot_be_written(one_rank, folder):
    found = refused(one_rank, folder, ["steps=6"], on_a_full_disk)
    remedy = "free some space, then run the same command again: finished work is kept"
    assert found == f"74 cannot write {folder / 'run'}: File too large; {remedy}"
    assert resume(one_rank, folder) == [(0, "")]
