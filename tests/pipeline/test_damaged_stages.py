"""Every byte that a stage reads of the stages before it is verified: damage is refused, or changes nothing."""

import re
from collections import Counter

import pytest

from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.runner import StageRun
from clozeline.seeding import hash64
from tests.matrices import mark_slow_but
from tests.pipeline import mutations
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import STAGES

LATER = STAGES[1:]


@pytest.mark.parametrize("stage", mark_slow_but(["encode"], LATER))
def test_damage_is_never_silent(complete, stage, tmp_path):
    """One damage of a file of each kind that the stage before wrote, and four flips of a text."""
    arguments, output = complete
    files = mutations.files_before(output, stage)
    before = f"{STAGES[LATER.index(stage)]}/"
    kinds = {re.sub(r"[0-9]+", "N", name): name for name in files if name.startswith(before)}
    sample = [list(mutations.damages(name, 1))[hash64(name) % 4] for name in kinds.values()]
    text = next(name for name in files if "/documents/" in name)
    sample += [one for one in mutations.damages(text, 4) if one.kind == "flip"]
    found = {damage: mutations.outcome(damage, output, stage, arguments, tmp_path) for damage in sample}
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
                mutations.Damage("flip", relative, hash64(relative, number)).apply(self.stage.folder)
            return run_pass(self, *given)

        monkeypatch.setattr(StageRun, "_run_pass", damaging)
        with mutations.copied_before(output, stage, tmp_path) as copy:
            code = run_stage(stage, [*arguments, f"output={copy}"])
            same = code == 0 and tree(copy / stage) == tree(output / stage)
            found.append("refused" if code in mutations.CLEAR else "harmless" if same else f"silent, exit {code}")
    assert set(found) <= {"refused", "harmless"}
    assert "refused" in found
