"""`make try NAME=...` runs the contract tests of one algorithm, of every registry."""

import subprocess
import sys

import pytest

from tests.registries import ROOT, algorithms, registries
from tests.try_one import contract_files, main


@pytest.mark.parametrize("name", ["maskd_lm", "filters/masked_lm"])
def test_a_wrong_name_gives_the_nearest_ones(name, capsys):
    assert main([name]) == 64
    assert "masked_lm" in capsys.readouterr().err.partition("nearest names: ")[2].partition(".")[0]


@pytest.mark.parametrize("package", registries())
def test_no_test_file_of_a_sibling_is_collected(package):
    path = algorithms(package)[0]
    files = contract_files(package, path.stem)
    assert all(file.exists() for file in files)
    assert files[0] == ROOT / "tests/test_registries.py"
    siblings = {f"test_{one.name}" for one in algorithms(package)}
    assert not [file for file in files if file.name in siblings and file.parent.name == path.parent.name]


def test_what_ran_is_said():
    """The tests of a sentence splitter are the cheapest ones."""
    command = [sys.executable, "-m", "tests.try_one", "sentences/lines", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in tests/pipeline/text/sentences/test_splitter.py" in done.stdout
    assert "in tests/pipeline/text/sentences/test_lines.py" in done.stdout
    assert "test_regex.py" not in done.stdout
    assert "pipeline/text/sentences/lines.py: " in done.stdout.splitlines()[-1]
