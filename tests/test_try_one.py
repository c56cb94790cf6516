"""`make try NAME=...` runs the contract tests of one algorithm, of every registry."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registries import ROOT, algorithms, registries
from tests.touched import find_touched, importers
from tests.try_one import Selection, contract_files, find_algorithms, main


def test_an_algorithm_is_found_by_its_file_name() -> None:
    both = [path.parent.name for _, path in find_algorithms("masked_lm")]
    assert both == ["heads", "objectives"]
    for name in ("heads/masked_lm", "model/heads/masked_lm", "model/heads/masked_lm.py"):
        assert [path.parent.name for _, path in find_algorithms(name)] == ["heads"]


@pytest.mark.parametrize("name", ["maskd_lm", "filters/masked_lm"])
def test_a_wrong_name_gives_the_nearest_ones(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 64
    assert "masked_lm" in capsys.readouterr().err.partition("nearest names: ")[2].partition(".")[0]


@pytest.mark.parametrize("package", registries())
def test_no_test_file_of_a_sibling_is_collected(package: str) -> None:
    path = algorithms(package)[0]
    files = contract_files(package, path.stem)
    assert all(file.exists() for file in files)
    assert files[0] == ROOT / "tests/test_registries.py"
    siblings = {f"test_{one.name}" for one in algorithms(package)}
    assert not [file for file in files if file.name in siblings and file.parent.name == path.parent.name]


def test_cases_of_an_algorithm_are_told_by_their_parameters() -> None:
    selection = Selection([ROOT / "model/checkpoints/deberta_v2.py"])
    for value in ("deberta_v2", "deberta-v2", ("x", ["deberta-v2"]), {"name": "deberta_v2"}, Path("a/deberta_v2.py")):
        assert selection.is_about(value)
    for value in ("deberta", 2, None, ("deberta", {"name": "x"}), Path("deberta_v2/other.py")):
        assert not selection.is_about(value)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_passes_the_name_on() -> None:
    command = ["make", "-n", "try", "NAME=my_objective", f"STAMP={ROOT / 'Makefile'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-m tests.try_one my_objective" in done.stdout


def test_what_ran_is_said() -> None:
    """The tests of a sentence splitter are the cheapest ones."""
    command = [sys.executable, "-m", "tests.try_one", "sentences/lines", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in tests/pipeline/text/sentences/test_splitter.py" in done.stdout
    assert "in tests/pipeline/text/sentences/test_lines.py" in done.stdout
    assert "test_regex.py" not in done.stdout
    assert "pipeline/text/sentences/lines.py: " in done.stdout.splitlines()[-1]


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """A repository with a module, a module that uses it, a helper of tests, and tests of each."""
    files = {
        "train/a.py": "",
        "train/b.py": "from clozeline.train import a",
        "tests/help.py": "import clozeline.train.a",
        "tests/train/test_a.py": "",
        "tests/train/test_b.py": "",
        "tests/train/test_c.py": "",
        "tests/test_using.py": "from clozeline.train.a import x",
        "tests/test_helped.py": "from tests.help import y",
        "tests/test_other.py": "path = 'configs/x.yaml'",
        "configs/x.yaml": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def test_what_a_change_touches_comes_nearest_first(small_tree: Path) -> None:
    touched = find_touched(small_tree, ["train/a.py"])
    own, importing, folder = (
        ["train/test_a.py"],
        ["test_helped.py", "test_using.py"],
        ["train/test_b.py", "train/test_c.py"],
    )
    assert touched == [f"tests/{name}" for name in [*own, *importing, *folder]]
    assert find_touched(small_tree, ["configs/x.yaml"]) == ["tests/test_other.py"]
    assert find_touched(small_tree, ["tests/help.py"]) == ["tests/test_helped.py"]
    assert find_touched(small_tree, ["README.md"]) == []


def test_the_tests_of_a_user_follow_those_of_the_module(small_tree: Path) -> None:
    (small_tree / "tools").mkdir()
    (small_tree / "tools/user.py").write_text("from clozeline.train.a import x")
    (small_tree / "tests/tools").mkdir()
    (small_tree / "tests/tools/test_user.py").write_text("")
    importers.cache_clear()  # the tree was read by no test, but a path of another run may be the same
    assert find_touched(small_tree, ["train/a.py"])[-1] == "tests/tools/test_user.py"


@pytest.mark.parametrize(("seconds", "left"), [(60, 1), (0, 2)])
def test_no_test_begins_after_the_deadline(seconds: int, left: int, tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text("def test_ranks(two_ranks): ...\ndef test_short(): ...\n")
    run = "pytest.main(['-p', 'no:cacheprovider', 'test_two.py'], plugins=[deadline])"
    call = f"deadline = Deadline({seconds}); {run}; print(len(deadline.left))"
    command = [sys.executable, "-c", f"import pytest; from tests.touched import Deadline; {call}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(left)
