"""Algorithms of one's own, as the example in docs/mylab has them: in a folder, or as an installed
package."""

import importlib.util
import json
import os
import re
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
            "filters": [{"name": "mylab.filters.shouting:Shouting", "share": 0.3}],
            "language": None,
        },
        "corrupt": [{"name": "mylab.objectives.rare_tokens:RareTokens", "mask_rate": 0.2}],
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
    assert "clean.filters.0: mylab.filters.shouting cannot be imported" in missing.stderr
    assert "frozen" not in missing.stderr

    shutil.copytree(MYLAB / "mylab", folder / "mylab")
    file = folder / "mylab/objectives/rare_tokens.py"  # an attribute that decides nothing
    file.write_text(file.read_text().replace("    Options", '    name = "rare"\n    Options'))
    done = command("pipeline", "--config", "own.yaml", "executor.workers=2")

    assert done.returncode == 0, done.stderr

    return folder, command


def test_a_module_of_ones_own_is_recorded_and_a_part_of_the_digest(made):
    folder, command = made

    assert (
        "mylab.objectives.rare_tokens:RareTokens"
        in (folder / "own/corrupt/config.yaml").read_text()
    )
    assert (
        '"mylab.objectives.rare_tokens:RareTokens"'
        in (folder / "own/corrupt/rare_tokens/train/manifest.json").read_text()
    )
    assert stages_to_do(command("pipeline", "--config", "own.yaml", "--plan")) == set()
    # another comment is another source, of which nobody knows that it computes the same
    with (folder / "mylab/filters/shouting.py").open("a") as file:
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
    assert (
        "write CLOZELINE_IMPORT=mylab.filters.shouting:Shouting before the command" in looked.stderr
    )
    assert "if this file has changed since the start" in looked.stderr
    assert command("inspect-shard", "own/corrupt/rare_tokens/train").returncode == 0
    assert not (folder / "imported").exists()
    assert (
        command(
            "filter-report",
            "own",
            CLOZELINE_IMPORT="mylab.filters.shouting,mylab.objectives.rare_tokens",
        ).returncode
        == 0
    )
    assert (folder / "imported").exists()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Commands in a folder next to which the package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    shutil.copytree(MYLAB, folder / "package")
    (folder / "user").mkdir()
    subprocess.run([*pip, "--target", folder / "site", folder / "package"], check=True)
    command = command_in(folder / "user")

    def run(*words, **variables):
        return command(*words, PYTHONPATH=f"{ROOT}:{folder / 'site'}", **variables)

    words = [
        "corrupt=[{name: graded_tokens, mask_rate: 0.2}]",
        "clean.filters=[{name: shouting, share: 0.3}]",
        "word_counts={least_length: 4}",
    ]
    done = run("pipeline", "--config", "own.yaml", *words)

    assert done.returncode == 0, done.stderr

    return folder / "user", run, words


def train(command, *words):
    manifest = "data.shards=own/corrupt/graded_tokens/train/manifest.json"
    heads = "model.heads={masked_lm: 1.0, rarity: {smoothing: 0.1}}"
    optimizer = "optimizer={name: lars, learning_rate: 0.001}"
    dims = ["model.attention_heads=2", "data.global_batch=4", "data.lanes=4", *TRAIN]
    return command(
        "train", "--config", "recipe:demo", "output=run", manifest, optimizer, heads, *dims, *words
    )


def test_an_installed_extension_has_short_names_in_every_place(installed):
    """Its filter, objective, columns, head, optimizer, hook, stage, key and command."""
    folder, command, _ = installed
    counted = [json.loads(path.read_text()) for path in folder.glob("own/word_counts/words/*.json")]

    assert counted
    assert min(map(len, counted[0])) == 4
    assert "graded_tokens" in (folder / "own/corrupt/config.yaml").read_text()

    trained = train(command, "row_counter.per=2")

    assert trained.returncode == 0, trained.stderr

    records = map(json.loads, (folder / "run/metrics.jsonl").read_text().splitlines())

    assert [one["rows_seen"] for one in records if "rows_seen" in one][-1] == 2 * 4 / 2
    assert re.search(r"figures rows seen +4$", command("status", "run").stdout, re.M)

    (folder / "few.txt").write_text("The SEA")

    for words, shown in (
        (["--help"], "Train on rare tokens, and count words"),
        (["capitals", "few.txt"], "0.67  few.txt"),
        (["word-counts", "--help"], "word_counts.least_length"),
        (["train", "--help", "all"], "row_counter: mapping: Count the rows of a training\n"),
        (["check", "radam"], "kept"),
        (["show", "rare_tokens", "The sea was calm and the boat went out."], "labels"),
    ):
        done = command(*words)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout


def test_a_key_of_a_training_wraps_the_model_and_is_resumed(installed):
    """Its loss, check, record and state, and without it the message that names the extension."""
    folder, command, _ = installed
    words = ["quiet={target: 1e-6}", "output=quiet", "schedule.steps=4"]

    def weights():
        records = map(json.loads, (folder / "quiet/metrics.jsonl").read_text().splitlines())
        return [one["quiet_weight"] for one in records if "quiet_weight" in one]

    for steps in (2, 4):
        done = train(command, *words, f"steps={steps}", "log.every=1")
        assert done.returncode == 0, done.stderr

    assert weights() == pytest.approx([0.01 * 1.1**step for step in (1, 2, 3, 4)])

    stored = json.loads((folder / "quiet/checkpoints/step-00000004/checkpoint.json").read_text())

    assert stored["state"]["quiet"] == {"weight": weights()[-1]}

    refused = train(command, "quiet={target: 0}", "output=none")

    assert "quiet.target: expected more than 0" in refused.stderr

    hidden = train(lambda *all_words: command(*all_words, CLOZELINE_HIDE="mylab"), *words)

    assert hidden.returncode == 64


def test_an_extension_that_is_not_used_changes_nothing(installed):
    """No unit is made again and no resume is refused, with it or without; its keys are not known
    while it is hidden."""
    folder, command, words = installed
    plain = ["pipeline", "--config", "own.yaml", "output=plain", "clean.filters=[]"]
    plain += ["corrupt=[{name: masked_lm}]"]
    hidden = {"CLOZELINE_HIDE": "mylab"}

    assert command(*plain, **hidden).returncode == 0
    assert stages_to_do(command(*plain, "--plan")) == set()
    assert "word_counts" not in (folder / "plain/clean/config.yaml").read_text()

    refused = command("pipeline", "--config", "own.yaml", *words[2:], "--plan", **hidden)

    assert refused.returncode == 64
    assert "word_counts" in refused.stderr

    misspelled = command("pipeline", "--config", "own.yaml", "word_count={}", "--plan")

    assert "did you mean 'word_counts'?" in misspelled.stderr


def test_two_of_one_name_are_refused_with_both_places(tmp_path):
    """An algorithm, a command, a stage, a key and an extension."""
    for file in ("filters/gopher_quality.py", "commands/status.py", "keys/train/seed.py"):
        package = f"other_{Path(file).stem}"
        path = tmp_path / package / file
        path.parent.mkdir(parents=True)
        path.write_text('"""Something."""\n')
        (tmp_path / package / "__init__.py").write_text('"""Something."""\n')
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[clozeline.extensions]\n{package} = {package}\n")
        command = command_in(tmp_path)
        path = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        words = ["check", "gopher_quality"] if "filters" in file else ["train", "--help"]
        done = command(*(["--help"] if "commands" in file else words), **path)

        assert done.returncode == 64, done.stdout
        assert f"are called '{Path(file).stem}'" in done.stderr

        shutil.rmtree(info)
