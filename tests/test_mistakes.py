"""Typical mistakes of a first day: each ends in one line that says what to type instead
(tests/data/mistakes.yaml)."""

import shlex

import pytest
import yaml

from tests.built_once import built_once
from tests.distributed import run_program
from tests.registries import ROOT
from tests.tools import small_run
from tests.train.written_runs import write_run_on

MISTAKES = yaml.safe_load((ROOT / "tests" / "data" / "mistakes.yaml").read_text(encoding="utf-8"))
CASES = [(case["do"], case["says"]) for part in MISTAKES.values() for case in part]
PROSE = "The old man looked at the sea, and it was quiet. He had not been there for a long time.\n"


def write_files(folder):
    """Write what the commands of the mistakes name."""
    (folder / "texts").mkdir(parents=True)
    for number in range(10):
        (folder / "texts" / f"{number}.txt").write_text(PROSE * (number + 3))
    small_run.build(folder / "own", labels=("masked_lm", "causal_lm"))
    (folder / "shards").symlink_to(folder / "own" / "corrupt")
    write_run_on(
        folder / "run", folder / "shards" / "masked_lm" / "train" / "manifest.json", [4], 1
    )
    (folder / "tabs.yaml").write_text("corpus: mine\n\tseed: 1\n")
    (folder / "twice.yaml").write_text("corpus: mine\nseed: 1\nseed: 2\n")
    (folder / "rows.csv").write_text("text\nIt works.\n")


@pytest.fixture
def folder(tmp_path_factory, tmp_path):
    """A folder with links to them, for the output of one command."""
    for path in built_once(tmp_path_factory, "mistakes", write_files).iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize(("command", "says"), CASES, ids=[command for command, _ in CASES])
def test_a_mistake_ends_in_one_line_with_its_remedy(command, says, folder):
    words = ["clozeline", *shlex.split(command)]
    done = run_program(
        f"import sys; sys.argv = {words!r}; from clozeline.__main__ import main; sys.exit(main())",
        folder,
    )
    (error,) = done.errors

    assert done.codes[0] >= 64, error

    (line,) = error.strip().splitlines()

    assert [word for word in says if word not in line] == [], line
