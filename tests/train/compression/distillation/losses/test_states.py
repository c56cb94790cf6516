from __future__ import annotations

import pytest
import torch

from clozeline.errors import ConfigurationError
from tests.train.compression.distillation.pairs import batch, loss, model, pair


def test_mean_square_of_projected_states() -> None:
    """Written out by token and layer, from the states that the models compute by themselves."""
    student, teacher = pair(model(2, layers=2, dim=12), model(layers=4), loss("states", layers={0: 0, 2: 3}))
    student.eval()
    tensors = batch()
    ours, theirs = (one.family.layer_states(tensors) for one in (student, teacher.model))
    matrix = student.distillation["states"].project.weight  # type: ignore[union-attr]
    assert matrix.shape == (15, 12)
    expected = 0.0
    for here, there in ((0, 0), (2, 3)):
        for row, length in enumerate((7, 4, 9)):
            for token in range(length):
                difference = matrix @ ours[here][row, token] - theirs[there][row, token]
                expected += float((difference.detach() ** 2).sum()) / 15
    found = student({**tensors, **teacher(tensors)})["distil/states"]
    assert found.count == 20
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_layers_are_spread_and_the_embeddings_left_to_their_own_loss() -> None:
    student, _ = pair(model(layers=2), model(layers=4), loss("states"))
    assert student.distillation["states"].layers == {1: 2, 2: 4}
    assert not list(student.distillation["states"].parameters())


def test_the_identity_and_copied_layers_have_no_loss() -> None:
    student, teacher = pair(model(2, layers=1), model(layers=2), loss("states", layers={0: 0, 1: 1}))
    ours, theirs = dict(student.named_parameters()), dict(teacher.model.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.items():
            parameter.copy_(theirs[name])
    tensors = batch()
    found = student.eval()({**tensors, **teacher(tensors)})["distil/states"]
    # the student's last states went through the final norm, which the teacher applies after its second layer
    last = student.family.layer_states(tensors)[1] - teacher.model.family.layer_states(tensors)[1]
    real = torch.arange(11) < torch.tensor([7, 4, 9, 0])[:, None]
    assert float(found.total.detach()) == pytest.approx(float((last.square().mean(-1) * real).sum().detach()), rel=1e-5)


def test_layers_that_are_not_there() -> None:
    for layers, message in (
        ({4: 1}, "the student has the layers 0 to 3, got 4"),
        ({1: 5}, "the teacher has the layers 0 to 4, got 5"),
    ):
        with pytest.raises(ConfigurationError, match=f"distil.losses.states.layers: {message}"):
            pair(model(), model(layers=4), loss("states", layers=layers))
    xlnet = model(family="xlnet", position={"kind": "sinusoidal"}, bias={"qkv": False, "out": False}, dim=12)
    with pytest.raises(ConfigurationError, match="the teacher's family xlnet has none: take the loss scores"):
        pair(model(), xlnet, loss("states"))
