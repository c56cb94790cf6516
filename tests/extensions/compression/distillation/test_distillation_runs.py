"""Runs of students: a teacher in memory changes nothing but the losses, at every stage of ZeRO.

Exact to resume.
"""

import pytest
import torch

from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.train.checkpoint.stored_checkpoint import Index, StoredCheckpoint, steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.train.masked_set import write_config
from tests.train.runs import saved, start, steps

ALL = (
    "[{name: scores, temperature: 2.0, weight: 5.0}, {name: states, layers: {1: 2, 2: 4}}, {name: "
    "attention, weight: 0.5}, embeddings, cosine, {name: relations, relation_heads: 5}]"
)
NARROW = (
    "[scores, states, {name: embeddings, weight: 0.5}, {name: relations, relation_heads: 2, "
    "teacher_layer: 3}]"
)
"""Of a student of other width and heads, so that two losses have projections."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank, shards):
    """A folder with a trained run of four layers, `teacher`, and the configuration of it."""
    folder = tmp_path_factory.mktemp("distillation")
    config = write_config(folder / "train.yaml", shards, folder / "teacher", model__layers=4)
    assert one_rank.run(start, config, ["steps=3", "evaluate.max_rows=0"]) == [(0, "")]
    return folder


def student(folder, output, losses, *words):
    """Words of a student of two layers."""
    distil = f"distil={{teacher: {folder}/teacher, losses: {losses}}}"
    return [f"output={folder / output}", "model.layers=2", distil, "evaluate.max_rows=32", *words]


def losses(output):
    return [record["losses"] for record in steps(output)]


def test_a_student_resumes_to_the_bit_with_all_losses(folder, one_rank):
    config = folder / "train.yaml"
    start_from = "distil.start.layers=[1, 3]"

    assert one_rank.run(start, config, student(folder, "whole", ALL, "steps=4", start_from)) == [
        (0, "")
    ]

    for end in (2, 4):
        assert one_rank.run(
            start, config, student(folder, "parts", ALL, f"steps={end}", start_from)
        ) == [(0, "")]

    assert losses(folder / "whole") == losses(folder / "parts")
    assert len(losses(folder / "whole")) == 4

    names = ("scores", "states", "attention", "embeddings", "cosine", "relations")

    assert losses(folder / "whole")[0].keys() == {
        "masked_lm",
        *(f"distil/{name}" for name in names),
    }

    ours = saved(folder / "whole")
    theirs = saved(folder / "parts")

    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())

    state = Index.read(steps_in(folder / "whole/checkpoints")[-1]).state["distillation"]

    assert state["layers"]["states"] == {"1": 2, "2": 4}
    assert len(state["digest"]) == 32


def test_the_export_has_no_projections(folder, one_rank):
    from clozeline.extensions.published.export_plan import exported_form

    config = folder / "train.yaml"
    sizes = ["model.dim=18", "model.attention_heads=3"]
    words = student(folder, "moved", NARROW, *sizes)

    assert one_rank.run(start, config, [*words, "steps=1"]) == [(0, "")]
    # projections are in the checkpoint, and in nothing that reads a model
    found = StoredCheckpoint.find(folder / "moved")
    index = found.index
    projections = {name for name in index.parameters if name.startswith("distillation.")}

    assert projections == {
        f"distillation.{name}.project.weight" for name in ("states", "embeddings")
    }
    assert found.read_weights().keys() == index.parameters.keys() - projections

    exported = exported_form(TrainedModel.open(folder / "moved"))

    assert exported.tensors.keys() == index.parameters.keys() - projections
    assert build_checkpoint(exported).num_parameters() == sum(
        tensor.numel() for tensor in exported.tensors.values()
    )

    again = [
        f"output={folder}/again",
        f"model.init_from={folder}/moved",
        *sizes,
        "model.layers=2",
        "steps=1",
    ]

    assert one_rank.run(start, config, again) == [(0, "")]

    ((code, said),) = one_rank.run(
        start, config, [*student(folder, "moved", "[scores]", *sizes), "steps=2"]
    )

    assert code == 64
    assert "distil.losses" in said
