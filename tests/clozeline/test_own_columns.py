"""An objective, its columns and its head in a package of somebody else, from texts to an exported
body."""

import os
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file

from clozeline import plugins
from clozeline.pipeline.shards import open_shards
from tests.clozeline.test_plugins import MYLAB, command_in
from tests.train.masked_set import write_config
from tests.train.runs import logged, saved, start
from tests.train.synthetic import NO_DROPOUT

HEAD = "mylab.heads.rarity:RarityHead"
OPTIONS = {"smoothing": 0.1, "least": 1}


def start_with_package(world, folder, config, words):
    """Start a run of which a folder of the user has the package."""
    sys.path.insert(0, str(folder))
    os.environ[plugins.VARIABLE] = (
        "mylab.heads.rarity"  # as the command allows it for a file of the user
    )

    try:
        return start(world, config, words)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "mylab"]:
            del sys.modules[name]
        del os.environ[plugins.VARIABLE]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the package, and the set that its objective made; commands in it."""
    folder = tmp_path_factory.mktemp("user")
    command = command_in(folder)
    shutil.copytree(MYLAB / "mylab", folder / "mylab")
    done = command(
        "pipeline",
        "--config",
        "own.yaml",
        "corrupt=[{name: mylab.objectives.graded_tokens:GradedTokens, max_length: 32}]",
    )

    assert done.returncode == 0, done.stderr

    return folder, command


@pytest.fixture(scope="module")
def run(made, two_ranks):
    """Train on two ranks below the folder.

    Return the folder of the run, or the refusal of the first rank.
    """
    folder, _ = made
    shards = folder / "own/corrupt/graded_tokens/train/manifest.json"
    changes = {
        "model__heads": {"masked_lm": 1.0, HEAD: OPTIONS},
        "model__position": {"maximum": 64},
        **NO_DROPOUT,
    }

    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)

    def train(name, *words):
        words = [f"output={folder / name}", "checkpoint.every=2", *words]
        (code, message), *others = two_ranks.run(start_with_package, folder, config, words)

        assert [other for other, _ in others] == [code]

        return folder / name if code == 0 else f"{code} {message}"

    return train


def test_its_columns_are_stored_with_their_roles_and_valid(made):
    folder, command = made
    shards = open_shards(folder / "own/corrupt/graded_tokens/train")
    role = shards.manifest.roles["rarity"]

    assert (role.of, role.head, role.below) == ("label_positions", "rarity", 4)

    for row in shards:
        assert len(row["rarity"]) == len(row["label_positions"])
        assert row["rarest"].tolist() == [max(row["rarity"])]

    checked = command(
        "validate-shards",
        "own/corrupt/graded_tokens/train",
        CLOZELINE_IMPORT="mylab.objectives.graded_tokens",
    )

    assert checked.returncode == 0, checked.stderr


def test_a_run_resumes_as_if_it_had_not_stopped_unless_the_code_changed(made, run):
    folder, command = made
    run("stopped", "steps=2")

    assert logged(run("stopped", "steps=4")) == logged(run("straight", "steps=4"))

    exported = command(
        "export-model",
        "stopped",
        "exported",
        "parts=encoder",
        CLOZELINE_IMPORT="mylab.heads.rarity",
    )

    assert exported.returncode == 0, exported.stderr

    table = load_file(folder / "exported/model.safetensors")["embeddings.word_embeddings.weight"]

    assert torch.equal(
        table[: len(table)], saved(folder / "stopped")["family.tokens.weight"][: len(table)]
    )
    # another comment is other code, of which nobody knows that it computes the same
    with (folder / "mylab/heads/rarity.py").open("a") as file:
        file.write("# edited\n")
    refused = run("stopped", "steps=6")

    assert refused.startswith("64 ")
    assert f"checkpoint.allow_changed=[code.{HEAD}]" in refused
