"""Algorithms of one's own, as the example in docs/mylab has them: in a folder, or as an installed
package."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clozeline.pipeline import all_stages
from tests.pipeline.execution.executors.cluster import install
from tests.pipeline.miniature import write_corpus

ROOT = Path(__file__).parents[2]
MYLAB = ROOT / "docs" / "mylab"
TRAIN = [
    "steps=2",
    "schedule.warmup=0",
    *(f"model.{key}" for key in ("dim=8", "layers=1", "ffn_dim=8")),
]


def command_in(folder):
    """Return a function that runs commands in a folder of the user, without what tests put in the
    environment."""
    write_corpus(folder / "texts", 30)
    recipe = {
        "base": str(ROOT / "configs/recipes/demo/pipeline.yaml"),
        "output": "own",
        "input": "texts",
        "heldout": {"fraction": 0.2},
        "clean": {
            "filters": [{"name": "mylab.algorithms:Shouting", "share": 0.3}],
            "language": None,
        },
        "corrupt": [{"name": "mylab.algorithms:RareTokens", "mask_rate": 0.2}],
    }

    (folder / "own.yaml").write_text(yaml.safe_dump(recipe))
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CLOZELINE_IMPORT")
    }

    def run(*words, **variables):
        words = [sys.executable, "-P", "-m", "clozeline", *words]
        return subprocess.run(
            words,
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


def stages_to_do(done):
    """Return the stages of which `--plan` says that a unit must run."""
    rows = [line.split() for line in done.stdout.splitlines() if line[:1].isalpha()]
    return {row[0] for row in rows if row[0] in all_stages() and row[3] != "0"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a module of the user's own and what it made of texts in two processes.

    Commands in it.
    """
    folder = tmp_path_factory.mktemp("user")
    command = command_in(folder)
    missing = command("pipeline", "--config", "own.yaml")

    assert missing.returncode == 64
    assert "mylab.algorithms:Shouting: no module 'mylab'; install its package" in missing.stderr

    shutil.copytree(MYLAB / "mylab", folder / "mylab")
    done = command("pipeline", "--config", "own.yaml", "executor.workers=2", "executor.tasks=2")

    assert done.returncode == 0, done.stderr

    return folder, command


def test_a_module_of_ones_own_is_recorded_and_a_part_of_the_digest(made):
    folder, command = made

    assert "mylab.algorithms:RareTokens" in (folder / "own/corrupt/config.yaml").read_text()
    assert (
        '"mylab.algorithms:RareTokens"'
        in (folder / "own/corrupt/rare_tokens/train/manifest.json").read_text()
    )
    assert stages_to_do(command("pipeline", "--config", "own.yaml", "--plan")) == set()
    # another comment is another source, of which nobody knows that it computes the same
    with (folder / "mylab/algorithms.py").open("a") as file:
        file.write("# edited\n")

    assert stages_to_do(command("pipeline", "--config", "own.yaml", "--plan")) >= {"clean"}


def test_tasks_of_a_cluster_find_it_in_the_folder_of_the_driver(made, monkeypatch):
    """A task unpickles its work, in which there are objects of that module."""
    folder, command = made
    cluster = install(folder / "cluster", monkeypatch)
    options = "{partition: cpu, driver_bytes: 0, poll_s: 0.01}"
    words = (
        "output=there",
        "executor.name=slurm",
        f"executor.options={options}",
        "executor.tasks=2",
    )

    (folder / "yaml.py").write_text("raise SystemExit('a file among the data was imported')\n")

    try:
        done = command(
            "clean",
            "--config",
            "own.yaml",
            *words,
            CLUSTER=str(cluster),
            PATH=f"{cluster / 'bin'}:{os.environ['PATH']}",
        )
    finally:
        (folder / "yaml.py").unlink()

    assert done.returncode == 0, done.stderr
    assert list((folder / "there/clean/logs").rglob("*.out")), "it ran as tasks"


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"
)
def test_actors_of_a_cluster_find_it_behind_the_installed_modules(made):
    folder, command = made
    (folder / "yaml.py").write_text("raise SystemExit('a file among the data was imported')\n")

    try:
        options = "{mem_per_cpu_gb: 0.25}"
        words = (
            "output=actors",
            "executor.name=ray",
            f"executor.options={options}",
            "executor.tasks=2",
        )
        done = command("clean", "--config", "own.yaml", *words)
    finally:
        (folder / "yaml.py").unlink()

    assert done.returncode == 0, done.stderr


def test_a_folder_of_somebody_else_imports_nothing(made):
    folder, command = made
    (folder / "mylab/__init__.py").write_text(f"open({str(folder / 'imported')!r}, 'w')\n")
    looked = command("filter-report", "own")

    assert looked.returncode == 64
    assert "write CLOZELINE_IMPORT=mylab.algorithms:Shouting before the command" in looked.stderr
    assert command("inspect-shard", "own/corrupt/rare_tokens/train").returncode == 0
    assert not (folder / "imported").exists()
    assert command("filter-report", "own", CLOZELINE_IMPORT="mylab.algorithms").returncode == 0
    assert (folder / "imported").exists()


@pytest.mark.slow
def test_an_installed_package_is_used_from_texts_to_export(tmp_path):
    """By entry points, which need no allowance; help lists them."""
    command = command_in(tmp_path)
    package = tmp_path / "package"
    shutil.copytree(MYLAB, package)

    with (package / "pyproject.toml").open("a") as file:
        file.write(
            '[project.entry-points."clozeline.objectives"]\nrare_tokens = '
            '"mylab.algorithms:RareTokens"\n'
        )
        file.write('[project.entry-points."clozeline.heads"]\nfocal = "mylab.training:Focal"\n')
        file.write(
            '[project.entry-points."clozeline.optimizers"]\nradam = "mylab.training:RAdam"\n'
        )

    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(tmp_path / "site"),
        str(package),
    ]

    subprocess.run(pip, check=True)
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path / 'site'}"}
    words = [
        "corrupt=[{name: rare_tokens, mask_rate: 0.2}]",
        "clean.filters=[{name: shouting, share: 0.3}]",
    ]
    made = command("pipeline", "--config", "own.yaml", *words, **path)

    assert made.returncode == 0, made.stderr

    (tmp_path / "few.txt").write_text("The sea was calm.\n")
    manifest = "data.shards=own/corrupt/rare_tokens/train/manifest.json"
    optimizer = "optimizer={name: radam, learning_rate: 0.001}"
    for step in (
        [
            "train",
            "--config",
            "recipe:demo",
            "output=run",
            "model.attention_heads=2",
            manifest,
            optimizer,
            *TRAIN,
        ],
        ["fill-mask", "run", "text=the <mask> of"],
        ["evaluate", "run", "perplexity=few.txt"],
        ["export-model", "run", "exported"],
        ["check", "radam"],
    ):
        done = command(*step, **path)
        assert done.returncode == 0, done.stderr

    shown = command("show", "rare_tokens", "The sea was calm and the boat went out.", **path)

    assert "labels" in shown.stdout
    assert "optimizer.learning_rate (name: adamw" in command(
        "train", "--help", **path
    ).stdout.replace("\n", "")
    assert "radam" in command("train", "--help", **path).stdout
