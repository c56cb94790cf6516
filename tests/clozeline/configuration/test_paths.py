"""Paths to what is neither a file nor a folder: refused by kind, at once, wherever a user names
them."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.command_line import refuse_unreadable
from clozeline.configuration.config import HOME_EXPANDED, load_config, read_mapping, validate
from clozeline.configuration.paths import OutputPath
from clozeline.file_kinds import special_kind
from clozeline.files import read_json
from clozeline.pipeline.execution.executors.slurm import Slurm
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig
from tests.refusals import refused


@pytest.fixture(params=["a pipe", "a socket", "a device"])
def special(request, tmp_path):
    """A path and its kind; a link to it counts as what it leads to."""
    path = tmp_path / "special"

    if request.param == "a pipe":
        os.mkfifo(path)
    elif request.param == "a device":
        path.symlink_to("/dev/zero")

    with socket.socket(socket.AF_UNIX) as listener:
        if request.param == "a socket":
            listener.bind(os.fspath(path))
        yield path, request.param


def test_kinds(special, tmp_path):
    path, kind = special

    assert special_kind(path) == kind
    assert special_kind(tmp_path) is None
    assert special_kind(__file__) is None
    assert special_kind(tmp_path / "nothing") is None
    assert special_kind("a text\0 that is no path") is None


def test_a_configuration_is_a_file(special, tmp_path):
    path, kind = special

    with refused(f"--config {path}: expected a file or folder, got {kind}"):
        read_mapping(path)

    with refused("expected a YAML file, got a folder"):
        read_mapping(tmp_path)
    (tmp_path / "new.yaml").write_text("base: special.yaml")
    path.rename(tmp_path / "special.yaml")
    with refused(r"special.yaml: no such file"):
        load_config(Recipe, tmp_path / "new.yaml")


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ("{}", "argument"),
        ("input={}", "input"),
        ("--config={}", "--config"),
        ("--config {}", "--config"),
    ],
)
def test_a_word_of_the_command_line_names_a_file(special, shape, key):
    path, kind = special
    with refused(f"{key}: {path}: expected a file or folder, got {kind}"):
        refuse_unreadable(shape.format(path).split())


@pytest.mark.parametrize("value", ["", "a\0b"])
@pytest.mark.parametrize(
    ("key", "schema", "given"),
    [
        ("output", Recipe, {}),
        ("input", Recipe, {}),
        ("tokenizer.path", Recipe, {}),
        ("clean.exclude", Recipe, {}),
        ("output", TrainConfig, {}),
        ("data.shards", TrainConfig, {}),
        ("data.heldout", TrainConfig, {"data": {"shards": "a"}}),
        ("model.init_from", TrainConfig, {"model": {"family": "encoder"}}),
        ("branch_from", TrainConfig, {}),
    ],
)
def test_a_path_is_not_empty_and_has_no_nul(key, schema, given, value):
    first, _, last = key.partition(".")
    entry = {**given.get(first, {}), last: value} if last else value
    with refused(f"{key}: expected a path, got"):
        validate(schema, {**given, first: entry}, "FILE")


@pytest.mark.parametrize(
    ("key", "value", "schema"),
    [
        ("corpus", "", Recipe),
        ("watchdog_s", 1e308, TrainConfig),
        ("collective_timeout_s", 1e308, TrainConfig),
        ("poll_s", 1e308, Slurm.Options),
    ],
)
def test_a_name_has_a_letter_and_a_time_ends(key, value, schema):
    with refused(f"{key}: "):
        validate(schema, {key: value}, "FILE")


def test_a_key_of_a_configuration_names_a_file(special):
    from typing import Annotated

    path, kind = special

    for type_, value in (
        (Path, str(path)),
        (list[Path], [str(path)]),
        (dict[str, Path], {"a": str(path)}),
    ):
        with refused(f"got {kind}"):
            validate(Annotated[type_, HOME_EXPANDED], value, "FILE")


@pytest.mark.parametrize(
    "word",
    "s3://bucket/out S3:///bucket s3: gs:/bucket simplecache::s3://bucket/out file::s3://b/o "
    "me@host.example:/out".split(),
)
def test_a_url_is_no_local_path(word):
    with refused("FILE: key.0: expected a local path, got a URL"):
        validate(list[OutputPath], [word], "FILE", "key.")


@pytest.mark.parametrize(
    "word", ["file:///data/out", "FILE:/data/out", "a/s3:/b", "run:1/out", "."]
)
def test_local_paths(word):
    assert str(validate(OutputPath, word, "FILE")) == re.sub("file:/+", "/", word, flags=re.I)


def test_a_file_of_a_folder_is_one(special):
    path, _ = special
    assert read_json(path) is None


def test_a_command_with_a_pipe_ends_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")

    for words in (
        ["pipeline", "--config", "pipe.yaml"],
        ["train", "--config", "pipe.yaml"],
        ["clean", "input=pipe.yaml"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "clozeline", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

        assert done.returncode == 64
        assert "got a pipe" in done.stderr
