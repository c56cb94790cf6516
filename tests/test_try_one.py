"""`make try NAME=...` runs the contract tests of one algorithm, of every registry."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.registries import ROOT, algorithms, registries
from tests.touched import find_tests
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
    files = contract_files(package)
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


def test_what_ran_is_said() -> None:
    """The tests of a sentence splitter are the cheapest ones."""
    command = [sys.executable, "-m", "tests.try_one", "sentences/lines", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in tests/pipeline/text/sentences/test_splitter.py" in done.stdout
    assert "in tests/pipeline/text/sentences/test_lines.py" in done.stdout
    assert "test_regex.py" not in done.stdout
    assert "pipeline/text/sentences/lines.py: " in done.stdout.splitlines()[-1]


def test_the_tests_that_could_know_a_file_come_nearest_first(tmp_path: Path) -> None:
    files = {
        "train/a.py": "",
        "tests/help.py": "import clozeline.train.a",
        "tests/train/test_a.py": "",
        "tests/train/test_b.py": "",
        "tests/test_using.py": "from clozeline.train.a import x",
        "tests/test_helped.py": "from tests.help import y",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    using = ["tests/test_using.py", "tests/test_helped.py"]
    assert find_tests(tmp_path, "train/a.py") == [["tests/train/test_a.py"], using, ["tests/train/test_b.py"]]
