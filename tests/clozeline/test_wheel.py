"""What `pip install` takes has every file below one name, and works without the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.built_once import built_once

ROOT = Path(__file__).parents[2]
FOLDERS = ("clozeline", "configs", "extensions", "model", "pipeline", "tools", "train")
BESIDE_THE_PACKAGE = {
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "PKG-INFO", ".gitignore"),
    *("constraints.txt", "hatch_build.py", "pyproject.toml"),
}
SMALL = ["steps=20", "schedule.warmup=0.1", "data.global_batch=8", "data.lanes=8"]

pytestmark = pytest.mark.slow


def run(*command, cwd):
    """Run a command in a folder, in an environment that names no checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """An sdist of the checkout, and the wheel that pip builds of it."""

    def build(folder):
        folder.mkdir()
        run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
        (sdist,) = folder.glob("*.tar.gz")
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        run(*pip, "-w", folder, sdist, cwd=folder)

    folder = built_once(tmp_path_factory, "distributions", build)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def packaged_files():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    sources = [
        path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts
    ]
    return {name if name.startswith("clozeline/") else f"clozeline/{name}" for name in sources}


def test_an_sdist_holds_the_package_and_what_builds_it(distributions):
    with tarfile.open(distributions[0]) as archive:
        assert all(member.isfile() for member in archive)
        names = {name.partition("/")[2] for name in archive.getnames()}

    compiled = {name for name in packaged_files() if name.endswith(".so")}
    assert names == (packaged_files() - compiled) | BESIDE_THE_PACKAGE


def test_nothing_generic_is_installed_and_no_file_is_missing(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        names = set(archive.namelist())

    assert {name.partition("/")[0] for name in names} == {"clozeline", "clozeline-0.1.0.dist-info"}
    assert {name for name in names if name.startswith("clozeline/")} == packaged_files()


def test_an_installed_wheel_goes_from_texts_to_an_exported_model(distributions, tmp_path):
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    site = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    # dependencies of this environment, after what is installed; the links of its own `.pth` files
    # to the checkout are not followed
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", distributions[1], cwd=tmp_path)
    texts = tmp_path / "texts"
    texts.mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        (texts / page.name).with_suffix(".txt").write_bytes(page.read_bytes())
    program = home / "bin" / "clozeline"

    def clozeline(*words):
        return run(program, *words, cwd=tmp_path)

    assert "in use" in clozeline("doctor")
    assert clozeline("where").strip() == str(Path(site, "clozeline"))
    clozeline("new", "mine", "input=texts", "language=en", "model=bert")
    clozeline("pipeline", "--config", "mine/pipeline.yaml")
    clozeline("train", "--config", "mine/train.yaml", *SMALL)
    clozeline("fill-mask", "mine/run", "text=A shard is a <mask> of a set.")
    clozeline("export-model", "mine/run", "exported")
    assert (tmp_path / "exported" / "model.safetensors").is_file()

    # one folder of an extension after another is gone: the rest works
    for folder in sorted(Path(site, "clozeline", "extensions").iterdir(), reverse=True):
        if folder.is_dir():
            shutil.rmtree(folder)
            assert f"\n{folder.name}: " not in clozeline("--help")

    clozeline("pipeline", "--config", "mine/pipeline.yaml")
    clozeline("train", "--config", "mine/train.yaml", *SMALL, "output=mine/again")
    clozeline("inspect-shard", next(tmp_path.glob("mine/**/corrupt/*/train")))
