"""The start of a distillation: the teacher, the copied layers, and what is refused."""

from pathlib import Path

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.extensions.compression.distillation import distillation_hooks
from clozeline.extensions.compression.distillation.stored_scores import StoredScores
from clozeline.extensions.compression.distillation.teacher_model import refuse_other_teacher
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.engine import hooks_of_run
from clozeline.train.hooks import UnwrappedModel
from clozeline.train.startup.starting_model import build_random_model
from tests.refusals import refused
from tests.train.masked_set import TOKENIZER, write_config, write_masked_sets
from tests.train.runs import start


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

    def prepared(*words, saved=None):
        here = [f"distil.teacher={folder}/teacher", "data.ignore=[]", *words]
        config = load_config(TrainConfig, folder / "train.yaml", here)
        shards = open_datasets(config).train
        (hook,) = hooks_of_run(config)
        hook.wrap(
            UnwrappedModel(build_random_model(config.model, 0, shards), config, shards, saved=saved)
        )
        return hook

    return prepared


def test_layers_are_copied_bit_by_bit(folder, prepare):
    made = prepare("distil.start.layers=[3, 1]")
    theirs = StoredCheckpoint.find(folder / "teacher").read_weights()
    for name, parameter in made.student.named_parameters():
        origin = name.replace("layers.0.", "layers.3.")
        assert torch.equal(parameter, theirs[origin]), name

    ours = {name: parameter.clone() for name, parameter in made.student.named_parameters()}

    assert all(
        torch.equal(own, theirs[name]) for name, own in made.teacher.model.named_parameters()
    )
    # a resumed run reads its own weights
    saved = TrainState(step=1, samples=8, added=made.in_state)
    again = dict(prepare("distil.start.layers=[3, 1]", saved=saved).student.named_parameters())

    assert not torch.equal(again["family.tokens.weight"], ours["family.tokens.weight"])


def test_the_record_names_the_teacher_and_the_layers(prepare):
    found = prepare("distil.losses=[scores, states]").record

    assert found["layers"] == {"states": {"1": 2, "2": 4}}

    refuse_other_teacher(found, found, None)

    with refused(f"digest {'0' * 32}, this one has {found['digest']}"):
        refuse_other_teacher({"digest": "0" * 32}, found, Path("runs/other"))


def test_without_a_teacher_in_memory(folder, prepare, monkeypatch):
    for losses in ("scores", "cosine"):
        with refused(
            f"distil.teacher: {losses} needs a teacher: .* has none",
        ):
            prepare("distil.teacher=null", f"distil.losses=[{losses}]")

    stored = StoredScores(
        source="bert", digest="d", head="masked_lm", k=2, how="top", temperature=1, seed=0, batch=32
    )
    monkeypatch.setattr(distillation_hooks, "read_stored_scores", lambda shards: stored)
    with refused(r"distil\.teacher: cosine needs a teacher"):
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
        "distil.teacher=null", f"distil.start={{layers: [0, 1], source: {folder}/teacher}}"
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
    with refused(message):
        prepare(*words)


def test_another_tokenizer_is_refused(folder, prepare, tmp_path):
    shards = write_masked_sets(
        tmp_path / "other", tokenizer=TOKENIZER | {"fingerprint": "e" * 64, "vocab_size": 51}
    )

    with refused(r"distil\.teacher: .* ffff.* eeee"):
        prepare(f"data.shards={shards}")
