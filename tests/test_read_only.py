"""Commands on a folder of a file system that is mounted read-only: the administrator cannot write
there either."""

import shutil
import subprocess
import sys

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe
from tests.shard_sets import toy_set
from tests.train.masked_set import write_config, write_masked_sets

SHORT = RECIPE[: RECIPE.index("dedup: {}")]
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
"""Makes a folder read-only for one process and its children, then runs a command."""
WAYS_OUT = (
    "make it writable, or choose another folder",
    "change its permissions, or choose another output",
)


def inside(folder, command):
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(folder), *command],
        capture_output=True,
        text=True,
        timeout=300,
    )


def results(folder, commands):
    """Run each command in such a process; return their exit codes and what they say."""
    if shutil.which("unshare") is None or inside(folder, ["true"]).returncode:
        pytest.skip("this machine lets no process mount a folder read-only for itself")

    assert inside(folder, ["touch", str(folder / "file")]).returncode == 1

    ended = {
        name: inside(folder, [sys.executable, "-m", "clozeline", *each])
        for name, each in commands.items()
    }
    return {name: (done.returncode, done.stdout + done.stderr) for name, done in ended.items()}


def is_refusal(folder, code, said):
    """Return whether a command ended with the code of storage, the place and the way out, and with
    no traceback."""
    told = (
        "Read-only file system" in said
        and str(folder) in said
        and any(way in said for way in WAYS_OUT)
    )

    return code == 74 and told and "Traceback" not in said and "[Errno" not in said


@pytest.mark.slow
def test_what_writes_there_says_so_and_what_reads_works(tmp_path):
    folder = tmp_path / "disk"
    elsewhere = tmp_path / "elsewhere"
    folder.mkdir()
    source = write_corpus(folder / "crawl", 12)
    recipe = ["--config", str(write_recipe(tmp_path, SHORT)), f"input={source}"]

    assert main([*recipe, f"output={folder / 'finished'}"]) == 0
    assert main([*recipe, f"output={folder / 'begun'}"]) == 0

    shutil.rmtree(folder / "begun" / "clean" / "records")
    whole = folder / "whole"
    toy_set(whole, [12, 8])
    shards = write_masked_sets(folder / "sets")
    training = [
        "--config",
        str(write_config(tmp_path / "train.yaml", shards, elsewhere / "training")),
    ]
    reads = {
        "an input": ["pipeline", *recipe, f"output={elsewhere / 'run'}"],
        "statistics": ["shard-stats", str(whole)],
        "rows": ["inspect-shard", str(whole)],
        "a copy": ["repack-shards", str(whole), "--output", str(elsewhere / "copy")],
        "a plan of training": ["train", *training, "--dry-run"],
    }

    writes = {
        "a new output": ["pipeline", *recipe, f"output={folder / 'new'}"],
        "a finished output": ["pipeline", *recipe, f"output={folder / 'finished'}"],
        "a stage": ["clean", *recipe, f"output={folder / 'begun'}"],
        "a copy of a set": ["repack-shards", str(whole), "--output", str(folder / "copy")],
        "a page": ["shard-stats", str(whole), "--html", str(folder / "page.html")],
        "a training": ["train", *training, f"output={folder / 'training'}"],
    }

    found = results(folder, {**reads, **writes})

    assert {name: found[name] for name in reads if found[name][0] != 0} == {}

    wrong = {name: found[name] for name in writes if not is_refusal(folder, *found[name])}

    assert wrong == {}
