"""The wheel that `pip install` uses: it is built, unpacked, and used from a folder full of files with our names."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("clozeline", "configs", "model", "pipeline", "tools", "train")
SCRIPT = "import sys\nfrom clozeline.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
"""Text that pip writes for the entry point of pyproject.toml."""
TEXT = "The quick brown fox jumps over the lazy dog number {0}. It has run {0} miles, and it will run more of them. "

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder like site-packages; beside it the script `clozeline`."""
    folder = tmp_path_factory.mktemp("installed") / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (folder.parent / "clozeline").write_text(SCRIPT, encoding="utf-8")
    return folder


@pytest.fixture
def hostile(tmp_path):
    for name in ("pipeline", "model", "train", "tools", "configs"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    return tmp_path


def call(installed, cwd, *words):
    """Run `clozeline WORDS` as installed; its standard output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    environment |= {"PYTHONPATH": str(installed), "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, str(installed.parent / "clozeline"), *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    assert str(ROOT) not in done.stdout, "it took the repository's files"
    return done.stdout


def test_nothing_generic_is_installed_and_no_file_is_missing(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names} == {"clozeline", "clozeline-0.1.0.dist-info"}
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    sources = [path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts]
    expected = {name if name.startswith("clozeline/") else f"clozeline/{name}" for name in sources}
    assert {name for name in names if name.startswith("clozeline/")} == expected


def test_the_chain_from_a_folder_with_files_of_our_names(installed, hostile):
    """Stages in worker processes, a tool and a training; every subcommand's help."""
    (hostile / "texts").mkdir()
    for number in range(60):
        text = "".join(TEXT.format(number * 50 + line) for line in range(40))
        (hostile / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    filters = "clean={language: {name: py3langid}, filters: []}"
    words = ["--config", "recipe:demo", filters, "dedup=null", "input=texts", "output=shards", "heldout.fraction=0.2"]
    call(installed, hostile, "pipeline", *words, "executor.tasks=2", "executor.workers=2")
    assert "complete" in call(installed, hostile, "clean", *words, "executor.tasks=2", "--dry-run")
    manifest = "shards/corrupt/masked_lm/train/manifest.json"
    assert "masked_lm" in call(installed, hostile, "inspect-shard", manifest, "--sample", "1")
    training = [f"data.shards={manifest}", "output=run", "steps=2", "schedule.warmup=0"]
    call(installed, hostile, "train", "--config", "recipe:demo", *training)
    assert (hostile / "run" / "report.html").exists()
