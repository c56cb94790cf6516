from __future__ import annotations

import torch

from clozeline.train.compression.distillation.student import Student
from tests.train.compression.distillation.pairs import batch, loss, model, pair

LOSSES = [loss("scores", weight=5.0), loss("states", weight=0.5), loss("embeddings")]


def test_a_student_has_the_names_and_losses_of_its_model() -> None:
    alone = model(2, dim=12)
    names, expected = [name for name, _ in alone.named_parameters()], alone.eval()(batch())["masked_lm"].total
    student, teacher = pair(alone, model(), *LOSSES)
    new = [name for name, _ in student.new_parameters()]
    assert new == ["distillation.states.project.weight", "distillation.embeddings.project.weight"]
    assert [name for name, _ in student.named_parameters()] == [*names, *new]
    assert student.num_parameters() == alone.num_parameters()
    assert student.needs == alone.needs
    tensors = batch()
    found = student.eval()({**tensors, **teacher(tensors)})
    assert torch.equal(found["masked_lm"].total, expected)
    assert list(found) == ["masked_lm", "distil/scores", "distil/states", "distil/embeddings"]
    assert student.loss_weights == {
        "masked_lm": 1.0,
        "distil/scores": 5.0,
        "distil/states": 0.5,
        "distil/embeddings": 1.0,
    }
    assert student.layer_maps == {"states": {"1": 1, "2": 2, "3": 3}, "embeddings": {"0": 0}}
    assert student.lines()[1] == "distil     0.5 x states, student→teacher layers 1→1 2→2 3→3"
    assert student.lines()[0] == "distil     5 x scores of masked_lm"


def test_projections_are_a_function_of_seed_and_name() -> None:
    """With the variance that keeps the size of states: 1 / width."""
    made = [Student(model(2, dim=12), losses, model().config, seed=seed) for losses, seed in
            ((LOSSES, 1), (LOSSES[1:2], 1), (LOSSES, 2))]  # fmt: skip
    weights = [student.get_parameter("distillation.states.project.weight") for student in made]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    other = made[0].get_parameter("distillation.embeddings.project.weight")
    assert not torch.equal(weights[0], other)
    assert 0.6 < float(torch.cat((weights[0], other)).std().detach()) * 12**0.5 < 1.4


def test_gradients_reach_a_teacher_in_no_way() -> None:
    student, teacher = pair(model(2), model(), *LOSSES)
    before = [parameter.clone() for parameter in teacher.model.parameters()]
    tensors = batch()
    losses = student({**tensors, **teacher(tensors)})
    torch.stack([one.total for one in losses.values()]).sum().backward()
    assert all(parameter.grad is None for parameter in teacher.model.parameters())
    assert all(torch.equal(*both) for both in zip(before, teacher.model.parameters(), strict=True))
    assert not any(name.startswith("teacher") for name, _ in student.named_parameters())
