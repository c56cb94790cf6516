"""Every byte that a pass reads of the passes before it is verified: damage is refused, or changes nothing."""

import os
import shutil
from contextlib import contextmanager

import pytest

from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.runner import StageRun
from clozeline.seeding import hash64
from tests.matrices import mark_slow_but
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import STAGES
from tests.pipeline.mutations import Damage

CLEAR = (64, 65, 69, 74)
"""Exit codes that come with a message."""


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
