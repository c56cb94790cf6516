"""Every file that a command reads, damaged in every way: the same result, or the file and a way out.

Never a traceback, never another result without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from clozeline.seeding import hash64
from tests.clozeline.bench import Answer, Bench
from tests.clozeline.hunt import GOOD, KINDS, Case, Hunt, Result, Snapshot, damage, judge, kind_of

BRIEF = ("resume", "export a run", "fill_mask", "begin with an import", "finetune", "evaluate", "tasks, again",
         "validate a task", "verify_counts", "where_is", "encode, again")  # fmt: skip
"""Commands of `make test`: together they read every kind of file."""
PATH = Path("/bench/set/manifest.json")


@pytest.fixture(scope="module")
def hunt(whole: Bench) -> Hunt:
    return Hunt(whole)


def assert_told(hunt: Hunt, cases: Iterable[Case]) -> None:
    outcomes = {case: hunt.outcome(case) for case in cases}
    found = [f"{case}: {outcome}: {problem}" for case, (outcome, problem) in outcomes.items() if outcome not in GOOD]
    assert not found, "\n".join(found)


def test_some_damage_is_never_silent(hunt: Hunt) -> None:
    """One damage of each kind of file, and of each kind of damage."""
    cases = sorted(hunt.cases(BRIEF), key=lambda case: hash64(str(case)))
    chosen = {key: case for case in cases for key in (kind_of(case.file), case.kind)}
    assert {*KINDS} <= chosen.keys()
    assert_told(hunt, dict.fromkeys(chosen.values()))


@pytest.mark.slow
def test_no_damage_is_silent(hunt: Hunt) -> None:
    assert_told(hunt, hunt.cases(sorted(hunt.commands)))


@pytest.mark.parametrize(
    ("answer", "content", "expected"),
    [
        (Answer(0, "done\n", ""), b"whole", "harmless"),
        (Answer(0, "done\n", ""), b"other", "silent"),
        (Answer(0, "done\nmanifest.json is made again\n", ""), b"other", "detected"),
        (Answer(65, "", f"error: {PATH}: damaged; copy it again\n"), b"whole", "detected"),
        (Answer(65, "", f"error: {PATH}: damaged\n"), b"whole", "unclear"),
        (Answer(65, "", "error: damaged; copy it again\n"), b"whole", "unclear"),
        (Answer(3, "", f"error: {PATH}: damaged; copy it again\n"), b"whole", "unclear"),
        (Answer(1, "", "Traceback (most recent call last):\n"), b"whole", "traceback"),
    ],
    ids=["same", "other", "said", "refused", "no-way-out", "no-file", "code", "traceback"],
)
def test_outcomes(answer: Answer, content: bytes, expected: str) -> None:
    out = Path("/bench/out")
    good = Result(Answer(0, "done\n", ""), {out: b"whole"})
    assert judge(Result(answer, {out: content}), good, PATH)[0] == expected


def test_a_folder_is_put_back(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    snapshot = Snapshot(tmp_path)
    (tmp_path / "a/file").write_text("A")
    (tmp_path / "b/file").rename(tmp_path / "new")
    damage(tmp_path / "c/file", "a folder", 0)
    (tmp_path / "d/file").rename(tmp_path / "e")
    (tmp_path / "d").rmdir()
    changed = ("a/file", "b/file", "c/file", "d", "d/file", "e", "new")
    assert snapshot.changed() == [tmp_path / name for name in changed]
    snapshot.restore()
    assert snapshot.changed() == []
    assert Snapshot(tmp_path).content == snapshot.content
