"""Every byte that a stage reads of the stages before it is verified: damage is refused, or changes nothing."""

import io
import os
import re
import shutil
from collections import Counter
from contextlib import contextmanager, redirect_stderr

import pytest

from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.runner import StageRun
from clozeline.seeding import hash64
from tests.matrices import mark_slow_but
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import STAGES
from tests.pipeline.mutations import Damage

LATER = STAGES[1:]
KINDS = ("flip", "truncate", "swap", "delete")
CLEAR = (64, 65, 69, 74)
"""Exit codes that come with a message."""


def files_before(output, stage):
    """Files that the stages before one wrote, without those made for people."""
    paths = [path for name in STAGES[: STAGES.index(stage)] for path in sorted((output / name).rglob("*"))]
    shown = ("report.html", "config.yaml")
    files = [path for path in paths if path.is_file() and not path.name.startswith(shown)]
    return [path.relative_to(output).as_posix() for path in files]


@contextmanager
def copied_before(output, stage, folder):
    """A copy of a run in which a stage and all later ones have not run, by links."""
    copy = folder / "copy"
    for name in STAGES[: STAGES.index(stage)]:
        shutil.copytree(output / name, copy / name, copy_function=os.link)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def outcome(damage, output, stage, arguments, folder):
    """`refused` by a message that names the file, `harmless` (the files are those of the undamaged run), or a fault."""
    with copied_before(output, stage, folder) as copy:
        path = copy / damage.relative
        for linked in path.parent.iterdir():  # a link would damage the original
            if linked.is_file():
                content = linked.read_bytes()
                linked.unlink()
                linked.write_bytes(content)
        damage.apply(copy)
        with redirect_stderr(io.StringIO()) as said:
            code = run_stage(stage, [*arguments, f"output={copy}"])
        if code in CLEAR:
            named = str(path.parent) if damage.kind == "swap" else str(path)
            return "refused" if named in said.getvalue() else f"unnamed: {said.getvalue()}"
        return "harmless" if code == 0 and tree(copy / stage) == tree(output / stage) else f"silent, exit {code}"


@pytest.mark.parametrize("stage", mark_slow_but(["encode"], LATER))
def test_damage_is_never_silent(complete, stage, tmp_path):
    """One damage of a file of each kind that the stage before wrote, and four flips of a text."""
    arguments, output = complete
    files = files_before(output, stage)
    before = f"{STAGES[LATER.index(stage)]}/"
    kinds = {re.sub(r"[0-9]+", "N", name): name for name in files if name.startswith(before)}
    sample = [Damage(KINDS[hash64(name) % 4], name, hash64(name, "damage")) for name in kinds.values()]
    text = next(name for name in files if "/documents/" in name)
    sample += [Damage("flip", text, hash64(text, number)) for number in range(4)]
    found = {damage: outcome(damage, output, stage, arguments, tmp_path) for damage in sample}
    assert [(damage, what) for damage, what in found.items() if what not in ("refused", "harmless")] == []
    assert Counter(found.values())["refused"] > len(found) // 3


@pytest.mark.parametrize("stage", mark_slow_but(["encode"], ["dedup", "encode", "group", "corrupt"]))
def test_damage_to_intermediate_files_is_never_silent(complete, stage, tmp_path, monkeypatch):
    """Before each pass but the first, one bit of one intermediate file is changed."""
    arguments, output = complete
    run_pass, found = StageRun._run_pass, []
    passes = 10 if stage == "dedup" else 4 if stage == "encode" else 2
    for number in range(1, passes):
        calls = iter(range(passes))

        def damaging(self, *given, calls=calls, number=number):
            if next(calls) == number:
                files = sorted(path for path in (self.stage.folder / "tmp").rglob("*") if path.stat().st_size)
                path = [path for path in files if path.is_file()][-(number % 2)]
                relative = path.relative_to(self.stage.folder).as_posix()
                Damage("flip", relative, hash64(relative, number)).apply(self.stage.folder)
            return run_pass(self, *given)

        monkeypatch.setattr(StageRun, "_run_pass", damaging)
        with copied_before(output, stage, tmp_path) as copy:
            code = run_stage(stage, [*arguments, f"output={copy}"])
            same = code == 0 and tree(copy / stage) == tree(output / stage)
            found.append("refused" if code in CLEAR else "harmless" if same else f"silent, exit {code}")
    assert set(found) <= {"refused", "harmless"}
    assert "refused" in found
