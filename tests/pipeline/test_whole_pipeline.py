"""All stages for documents: again, one by one, with mistakes, and on disks that fail."""

import errno
import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from clozeline import files
from clozeline.pipeline.execution.recipe_command import main, run_stage
from tests.matrices import mark_slow_but
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import STAGES


def bytes_of(output):
    return {
        f"{stage}/{name}": data for stage in STAGES for name, data in tree(output / stage).items()
    }


@pytest.mark.parametrize("unit_bytes", [8192, 4096])
def test_stage_by_stage_in_two_tasks_gives_the_bytes_of_one_run(complete, tmp_path, unit_bytes):
    """Units of another size have other records; the shards that training reads stay."""
    arguments, reference = complete
    words = [
        *arguments,
        f"output={tmp_path}",
        f"plan.unit_bytes={unit_bytes}",
        "executor={workers: 1}",
    ]
    for stage in STAGES:
        assert run_stage(stage, words) == 0
    mine = bytes_of(tmp_path)
    theirs = bytes_of(reference)
    shards = [
        name
        for name in theirs
        if name.startswith(("encode/", "group/", "corrupt/")) and name.endswith(".arrow")
    ]

    compared = theirs if unit_bytes == 8192 else shards

    assert [name for name in compared if mine.get(name) != theirs[name]] == []


@pytest.mark.parametrize(
    ("word", "code", "messages"),
    [
        ("clean.sources={novles: {filters: []}}", 64, ["no input has this `source` label"]),
        (
            "input=noise.warc.gz",
            64,
            ["noise.warc.gz: 1 of 1 row cannot be read; first damaged"],
        ),
        ("input=long.txt", 69, ["(documents): 1 too_long", "no document is left"]),
    ],
)
def test_mistakes_end_in_one_message(complete, tmp_path, monkeypatch, capsys, word, code, messages):
    monkeypatch.chdir(tmp_path)
    Path("noise.warc.gz").write_bytes(bytes(range(256)) * 64)
    Path("long.txt").write_bytes(b"x" * 20_000_001)

    assert main([*complete[0], "output=out", word]) == code

    shown = capsys.readouterr()

    assert all(message in shown.out + shown.err for message in messages)
    assert "Traceback" not in shown.err


class Killed(KeyboardInterrupt):
    """The end of a process, as far as one process can show it."""


class Fault:
    """Fails the n-th publication of a run: the process ends before the rename, or the disk is
    full."""

    def __init__(self, monkeypatch, kind):
        self.kind = kind
        self.at = 0
        self.seen = 0
        replace = Path.replace
        sync = files.sync
        monkeypatch.setattr(
            Path,
            "replace",
            lambda path, target: self._counted("killed", lambda: replace(path, target)),
        )

        monkeypatch.setattr(files, "sync", lambda path: self._counted("full", lambda: sync(path)))

    def _counted(self, kind, action):
        if kind == self.kind:
            self.seen += 1
            if self.seen == self.at:
                raise (
                    Killed if kind == "killed" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                )

        return action()

    def arm(self, at):
        self.at = at
        self.seen = 0


@pytest.mark.parametrize("kind", mark_slow_but(["killed"], ["killed", "full"]))
def test_runs_that_end_at_ever_later_publications_end_with_the_same_bytes(
    complete, tmp_path, monkeypatch, capsys, kind
):
    fault = Fault(monkeypatch, kind)
    words = [*complete[0], f"output={tmp_path / 'out'}"]

    for at in count(1, 4):
        fault.arm(at)

        code = main(words)
        said = capsys.readouterr().err

        assert "Traceback" not in said
        assert "please report" not in said

        if code == 0:
            break

        assert code == (74 if kind == "full" else 130), said
        assert kind == "killed" or (
            "No space left on device; free some space" in said and str(tmp_path) in said
        )

    assert at > 40
    assert bytes_of(tmp_path / "out") == bytes_of(complete[1])


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_without_its_folder_or_its_input_says_the_way_out(
    complete, tmp_path, capsys, stage
):
    arguments, reference = complete
    output = Path(shutil.copytree(reference, tmp_path / "out"))
    words = [*arguments, f"output={output}"]
    shutil.rmtree(output / stage)
    (output / stage).write_text("a file")

    assert run_stage(stage, words) in (64, 74)

    said = capsys.readouterr().err

    assert f"{output / stage}" in said
    assert "output=DIR" in said
    assert (output / stage).read_text() == "a file"

    (output / stage).unlink()
    if stage == STAGES[0]:
        return
    before = {"encode": "decontaminate", "group": "encode"}.get(
        stage, STAGES[STAGES.index(stage) - 1]
    )
    target = min(path for path in (output / before).rglob("*.arrow") if path.is_file())
    target.unlink()

    assert run_stage(stage, words) == 0
    assert f"{target}ismissing" in "".join(capsys.readouterr().err.split())
    assert main(words) == 0
    assert bytes_of(output) == bytes_of(reference)


def test_no_name_of_a_pipeline_is_written_through_a_link(complete, tmp_path, capsys):
    """At each name that a run writes, another run finds a link to a file of somebody who may write
    to the folder."""
    arguments, reference = complete
    names = [
        path.relative_to(reference)
        for path in reference.rglob("*")
        if path.is_file() and path.name != ".lock"
    ]

    assert len(names) > 40

    victims = {}

    for number, name in enumerate(names):
        link = tmp_path / "out" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        victims[link] = tmp_path / f"victim {number}"
        victims[link].write_text("mine")
        link.symlink_to(victims[link])

    code = main([*arguments, f"output={tmp_path / 'out'}"])

    assert [str(link) for link, victim in victims.items() if victim.read_text() != "mine"] == []
    assert code == 0 or [link for link in victims if link.is_symlink()], (
        "links are replaced, or they are refused"
    )

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".lock").symlink_to(tmp_path / "victim 0")

    assert main([*arguments, f"output={tmp_path / 'other'}"]) == 74
    assert "symbolic link" in capsys.readouterr().err
    assert (tmp_path / "victim 0").read_text() == "mine"
    assert [path.name for path in (tmp_path / "other").iterdir()] == [".lock"]
