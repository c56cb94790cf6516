"""Every file that a command reads, damaged in every way: the same result, or the file and a way out.

Never a traceback, never another result without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.clozeline.bench import NAMES, Answer
from tests.clozeline.damage import KINDS
from tests.clozeline.folder_state import FolderState
from tests.clozeline.hunt import GOOD, Hunt, Result, judged, table
from tests.clozeline.hunt_commands import NO_READERS, HuntBench
from tests.distributed import RankPool

BRIEF = ("resume", "export a run", "fill a mask", "generate", "explain a batch", "begin with an import",
         "compare scores", "score a task", "tasks, again", "validate a task", "verify_counts", "where_is",
         "encode, again")  # fmt: skip
"""Commands of `make test`: together they read every kind of file."""
COUNT = 40
PATH = Path("/bench/set/manifest.json")


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hunt]:
    ranks = RankPool(1)
    yield Hunt(HuntBench.made(tmp_path_factory.mktemp("hunt") / "bench", ranks))
    ranks.close()


def wrong(hunt: Hunt, names: Sequence[str], count: int | None) -> list[str]:
    lines = []
    for case in hunt.cases(names, 0)[:count]:
        outcome, problem = hunt.outcome(case)
        lines.append({"case": case.key, "file": case.file, "kind": case.kind, "outcome": outcome, "problem": problem})
    print(table(lines))
    return [f"{line['case']}: {line['outcome']}: {line['problem']}" for line in lines if line["outcome"] not in GOOD]


def test_some_damage_is_never_silent(hunt: Hunt) -> None:
    found = wrong(hunt, BRIEF, COUNT)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_no_damage_is_silent(hunt: Hunt) -> None:
    found = wrong(hunt, sorted(hunt.bench.commands), None)
    assert not found, "\n".join(found)


def test_every_command_that_reads_files_is_hunted(hunt: Hunt) -> None:
    assert {*NAMES} - {*NO_READERS, "train", "finetune", "evaluate"} <= hunt.bench.commands.keys()
    assert {case.kind for case in hunt.cases(BRIEF, 0)[:COUNT]} == set(KINDS)


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
    whole = Result(Answer(0, "done\n", ""), "", {out: b"whole", PATH: b"{}"})
    assert judged(Result(answer, "", {out: content, PATH: b"{"}), whole, PATH, b"{")[0] == expected


def test_a_folder_is_put_back(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    state = FolderState(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in state.files}
    assert state.changes() == {}
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("nowhere")
    (tmp_path / "c").unlink()
    (tmp_path / "c").mkdir()
    (tmp_path / "d/e").rename(tmp_path / "f")
    (tmp_path / "d").rmdir()
    assert state.changes() == {tmp_path / "a": b"A", tmp_path / "b": None, tmp_path / "c": None,
                               tmp_path / "d/e": None, tmp_path / "f": b"d/e"}  # fmt: skip
    state.restore()
    assert state.changes() == {}
    assert {path: (path.read_text(), path.stat().st_mtime_ns) for path in state.files} == {
        path: (str(path.relative_to(tmp_path)), times[path]) for path in times
    }
