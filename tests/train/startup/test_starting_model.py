from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.data.sets.stored_scores import StoredScores
from clozeline.train.startup import starting_model
from clozeline.train.startup.initial_weights import OtherTokenizer
from clozeline.train.startup.start_or_resume import StartingPoint
from clozeline.train.startup.starting_model import (
    build_random_model,
    build_starting_model,
    prepare_student,
    refuse_other_teacher,
)
from tests.train.masked_set import TOKENIZER, write_config, write_masked_sets
from tests.train.runs import start


def test_initial_weights_are_a_function_of_the_seed(tmp_path, shards):
    config = load_config(
        TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run"), []
    )
    train = open_datasets(config).train
    state = TrainState(step=0, samples=0)

    def weights(seed, freeze=()):
        point = StartingPoint(replace(config, seed=seed, freeze=freeze), state, None)
        starting = build_starting_model(point, train)
        assert (starting.base, starting.new) == ("", [])
        assert bool(starting.lines) == bool(freeze)
        return starting.model.family.tokens.weight.detach()

    assert torch.equal(weights(1), weights(1, ("embeddings",)))
    assert not torch.equal(weights(1), weights(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank, shards):
    """A folder with a trained run of four layers, `teacher`, and the configuration of a student of
    two."""
    folder = tmp_path_factory.mktemp("teacher")
    config = write_config(folder / "train.yaml", shards, folder / "teacher", evaluate__max_rows=0)

    assert one_rank.run(
        start, config, ["steps=2", "model.layers=4", "model.type_vocab_size=2"]
    ) == [(0, "")]

    return folder


@pytest.fixture
def prepare(folder):
    """Prepare a student; the arguments are words of its configuration."""

    def prepared(*words, resumed=False):
        here = [f"distil.teacher={folder / 'teacher'}", "data.ignore=[]", *words]
        config = load_config(TrainConfig, folder / "train.yaml", here)
        shards = open_datasets(config).train
        return prepare_student(config, build_random_model(config, shards), shards, resumed=resumed)

    return prepared


def test_layers_are_copied_bit_by_bit(folder, prepare):
    made = prepare("distil.start.layers=[3, 1]")
    theirs = StoredCheckpoint.find(folder / "teacher").read_weights()
    for name, parameter in made.student.named_parameters():
        origin = name.replace("layers.0.", "layers.3.")
        assert torch.equal(parameter, theirs[origin]), name

    assert made.lines[0].endswith(f"parameters from {folder / 'teacher'}, layers 0←3 1←1")
    assert not any("new:" in line for line in made.lines), (
        "segment types, which the student does not have, are left"
    )

    ours = {name: parameter.clone() for name, parameter in made.student.named_parameters()}

    assert all(
        torch.equal(own, theirs[name]) for name, own in made.teacher.model.named_parameters()
    )
    # a resumed run reads its own weights
    again = dict(prepare("distil.start.layers=[3, 1]", resumed=True).student.named_parameters())

    assert not torch.equal(again["family.tokens.weight"], ours["family.tokens.weight"])


def test_the_record_names_the_teacher_and_the_layers(prepare):
    found = prepare("distil.losses=[scores, states]").record

    assert found["layers"] == {"states": {"1": 2, "2": 4}}

    refuse_other_teacher(found, found, None)

    with pytest.raises(
        ConfigurationError, match=f"digest {'0' * 32}, this one has {found['digest']}"
    ):
        refuse_other_teacher({"digest": "0" * 32}, found, Path("runs/other"))


def test_without_a_teacher_in_memory(folder, prepare, monkeypatch):
    for losses in ("scores", "cosine"):
        with pytest.raises(
            ConfigurationError,
            match=f"distil.teacher: {losses} needs a teacher: .* has none",
        ):
            prepare("distil.teacher=null", f"distil.losses=[{losses}]")

    stored = StoredScores(
        source="bert", digest="d", head="masked_lm", k=2, how="top", temperature=1, seed=0, batch=32
    )
    monkeypatch.setattr(starting_model, "read_stored_scores", lambda shards: stored)
    with pytest.raises(ConfigurationError, match=r"distil\.teacher: cosine needs a teacher"):
        prepare("distil.teacher=null", "distil.losses=[cosine]")
    made = prepare(
        "distil.teacher=null", "distil.losses=[scores, cosine]", "distil.start.layers=[0, 1]"
    )

    assert made.teacher is None
    assert made.lines[-2:] == [
        "           no teacher in memory: without cosine, start.layers",
        f"           {stored}",
    ]

    named = prepare(
        "distil.teacher=null", f"distil.start={{layers: [0, 1], source: {folder / 'teacher'}}}"
    )

    assert named.lines[0].endswith("layers 0←0 1←1")
    assert not any("without" in line for line in named.lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["distil.start.layers=[0, 4]"], "distil.start.layers: .* has the layers 0 to 3, got 4"),
        (["distil.start.layers=[0]"], "distil.start.layers: expected 2, one for each layer, got 1"),
        (
            ["distil.start.layers=[0, 1]", "model.dim=24"],
            "shape .* there, .* here: a student of other widths",
        ),
        (["distil.teacher=/nowhere"], "distil.teacher: /nowhere: not a run or model directory"),
    ],
)
def test_refusals(prepare, words, message):
    with pytest.raises(ConfigurationError, match=message):
        prepare(*words)


def test_an_adapter_does_not_freeze_new_pieces(folder, monkeypatch):
    """The embeddings under an adapter are frozen: rows of new ids would stay what they start as."""
    words = ["model=null", f"model.init_from={folder / 'teacher'}", "model.adapter=lora"]
    config = load_config(TrainConfig, folder / "train.yaml", words)
    point = StartingPoint(config, TrainState(step=0, samples=0), None)

    for parts, refused in (({45: (1,)}, True), ({}, False)):
        other = OtherTokenizer(45, 50, parts)
        monkeypatch.setattr(starting_model, "compare_tokenizers", lambda *_, other=other: other)

        with (
            pytest.raises(ConfigurationError, match="an adapter freezes the embeddings")
            if refused
            else nullcontext()
        ):
            starting_model.build_starting_model(point, open_datasets(config).train)


def test_another_tokenizer_is_refused(folder, prepare, tmp_path):
    shards = write_masked_sets(
        tmp_path / "other", tokenizer=TOKENIZER | {"fingerprint": "e" * 64, "vocab_size": 51}
    )

    with pytest.raises(
        ConfigurationError, match=r"distil\.teacher: .* tokenizer ffff.*, the shards have eeee"
    ):
        prepare(f"data.shards={shards}")
