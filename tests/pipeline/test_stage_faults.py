"""Every stage on disks that fail: one message with the way out, and the same bytes once the disk is whole again."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from clozeline import files
from clozeline.pipeline.execution.recipe_command import main, run_stage
from tests.matrices import mark_slow_but
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, STAGES, write_corpus, write_recipe


class Killed(BaseException):
    """The end of a process, as far as one process can show it."""


class Fault:
    """Fails the n-th publication of a run: the process ends before the rename, or the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self.kind, self.at, self.seen = kind, 0, 0
        replace, sync = Path.replace, files.sync
        monkeypatch.setattr(
            Path, "replace", lambda path, target: self._counted("killed", lambda: replace(path, target))
        )
        monkeypatch.setattr(files, "sync", lambda path: self._counted("full", lambda: sync(path)))

    def _counted(self, kind: str, action):
        if kind == self.kind:
            self.seen += 1
            if self.seen == self.at:
                raise Killed if kind == "killed" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return action()

    def arm(self, at: int) -> None:
        self.at, self.seen = at, 0


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("corpus")
    short = RECIPE[: RECIPE.index("  - {name: span_corruption")].replace("variants: 2", "variants: 1")
    return ["--config", str(write_recipe(folder, short)), f"input={write_corpus(folder / 'crawl', 25)}"]


@pytest.fixture(scope="module")
def reference(arguments, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("reference") / "out"
    assert main([*arguments, f"output={output}"]) == 0
    return output


def bytes_of(output: Path) -> dict[str, bytes]:
    return {f"{stage}/{name}": data for stage in STAGES for name, data in tree(output / stage).items()}


def interrupted(arguments: list[str], output: Path) -> int | None:
    try:
        return main([*arguments, f"output={output}"])
    except Killed:
        return None


@pytest.mark.parametrize("kind", mark_slow_but(["killed"], ["killed", "full"]))
def test_runs_that_end_at_ever_later_publications_end_with_the_same_bytes(
    arguments, reference, tmp_path, monkeypatch, capsys, kind
):
    fault = Fault(monkeypatch, kind)
    for at in range(1, 200, 7):
        fault.arm(at)
        code = interrupted(arguments, tmp_path / "out")
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "please report" not in said
        if code == 0:
            break
        assert code == (74 if kind == "full" else None), said
        assert kind == "killed" or ("No space left on device; free some space" in said and str(tmp_path) in said)
    assert code == 0
    assert bytes_of(tmp_path / "out") == bytes_of(reference)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_whose_folder_cannot_be_made_says_the_key_and_the_way_out(
    arguments, reference, tmp_path, capsys, stage
):
    output = tmp_path / "out"
    shutil.copytree(reference, output)
    shutil.rmtree(output / stage)
    (output / stage).write_text("a file")
    assert run_stage(stage, [*arguments, f"output={output}"]) in (64, 74)
    said = capsys.readouterr().err
    assert f"{output / stage}" in said
    assert "output=DIR" in said
    assert (output / stage).read_text() == "a file"


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_whose_input_vanished_names_the_command_that_makes_it(arguments, reference, tmp_path, capsys, stage):
    output, before = tmp_path / "out", STAGES[STAGES.index(stage) - 1]
    shutil.copytree(reference, output)
    shutil.rmtree(output / stage)
    found = (path for path in sorted((output / before).rglob("*.arrow")) if path.is_file())
    target = next(found, output / before / "tokenizer" / "vocabulary.json")
    target.unlink()
    assert run_stage(stage, [*arguments, f"output={output}"]) == 64
    said = capsys.readouterr().err
    assert f"'{stage}' needs '{before}', which is not complete ({target} is missing): run `clozeline " in said
    assert main([*arguments, f"output={output}"]) == 0
    assert bytes_of(output) == bytes_of(reference)


def test_no_name_of_a_pipeline_is_written_through_a_link(arguments, reference, tmp_path):
    """At each name that a run writes, another run finds a link to a file of somebody who may write to the folder."""
    names = [path.relative_to(reference) for path in reference.rglob("*") if path.is_file() and path.name != ".lock"]
    assert len(names) > 40
    victims = {}
    for number, name in enumerate(names):
        link = tmp_path / "out" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        victims[link] = tmp_path / f"victim {number}"
        victims[link].write_text("mine", encoding="utf-8")
        link.symlink_to(victims[link])
    code = main([*arguments, f"output={tmp_path / 'out'}"])
    assert [str(link) for link, victim in victims.items() if victim.read_text(encoding="utf-8") != "mine"] == []
    assert code == 0 or [link for link in victims if link.is_symlink()], "links are replaced, or they are refused"


def test_a_lock_that_is_a_link_is_refused(arguments, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / "out" / ".lock").symlink_to(victim)
    assert main([*arguments, f"output={tmp_path / 'out'}"]) == 74
    assert "symbolic link" in capsys.readouterr().err
    assert victim.read_text(encoding="utf-8") == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
