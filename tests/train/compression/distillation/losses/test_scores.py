from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.compilation.host_shapes import pad_labels
from clozeline.train.compression.distillation.student import Student
from tests.train.compression.distillation.pairs import VOCABULARY, batch, loss, model, pair


def slow_divergence(theirs: list[float], ours: list[float]) -> float:
    """KL(theirs ‖ ours) of probabilities."""
    return sum(p * math.log(p / q) for p, q in zip(theirs, ours, strict=True) if p > 0)


def softmax(logits: Tensor, temperature: float) -> list[float]:
    powers = [math.exp(value / temperature) for value in logits.tolist()]
    return [power / sum(powers) for power in powers]


def scored(logits: Tensor, theirs: dict[str, Tensor], weights: Tensor, **options: Any) -> Tensor:
    """The loss of given logits of the student."""
    live = "logits_masked_lm" in theirs
    built = loss("scores", **options).build(model().config, model().config if live else None)
    return built({"logits_masked_lm": logits}, theirs, weights)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_divergence_is_summed_over_classes_and_weighed_by_label(temperature: float) -> None:
    torch.manual_seed(0)
    ours, theirs, weights = torch.randn(5, 7) * 2, torch.randn(5, 7) * 2, torch.tensor([1.0, 0.0, 0.5, 1.0, 2.0])
    expected = sum(
        float(weight) * slow_divergence(softmax(there, temperature), softmax(here, temperature))
        for here, there, weight in zip(ours, theirs, weights, strict=True)
    )
    found = scored(ours, {"logits_masked_lm": theirs}, weights, temperature=temperature)
    assert float(found) == pytest.approx(temperature**2 * expected, rel=1e-5)
    # against torch's own: `batchmean` is the mean over labels; `mean` would divide by the classes, too
    reference = torch.nn.functional.kl_div(
        (ours / temperature).log_softmax(-1), (theirs / temperature).softmax(-1), reduction="batchmean"
    )
    mean = scored(ours, {"logits_masked_lm": theirs}, torch.ones(5), temperature=temperature) / 5
    assert float(mean) == pytest.approx(temperature**2 * float(reference), rel=1e-5)


def test_at_high_temperature_the_gradient_matches_logits() -> None:
    """T → ∞: ((z_s - mean) - (z_t - mean)) / classes (Hinton et al., equation 4)."""
    torch.manual_seed(1)
    ours, theirs = torch.randn(4, 9, requires_grad=True), torch.randn(4, 9)
    scored(ours, {"logits_masked_lm": theirs}, torch.ones(4), temperature=100.0).backward()
    centered = [logits - logits.mean(-1, keepdim=True) for logits in (ours.detach(), theirs)]
    limit = (centered[0] - centered[1]) / 9
    assert ours.grad is not None
    assert (ours.grad - limit).norm() <= 1e-2 * limit.norm()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_all_classes_stored_are_a_teacher_in_memory(temperature: float) -> None:
    torch.manual_seed(2)
    theirs, weights = torch.randn(6, 11) * 3, torch.tensor([1.0, 1.0, 0.0, 1.0, 0.5, 1.0])
    order = torch.rand(6, 11).argsort(-1)
    stored = {"ids": order, "weights": (theirs / temperature).softmax(-1).gather(1, order)}
    found = []
    for teacher in ({"logits_masked_lm": theirs}, stored):
        ours = torch.linspace(-2, 2, 66).reshape(6, 11).sin().mul(4).requires_grad_()
        total = scored(ours, teacher, weights, temperature=temperature)
        total.backward()
        found.append((float(total.detach()), ours.grad))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    assert (found[1][1] - found[0][1]).abs().max() <= 1e-6 * temperature**2


def test_the_rest_is_one_class() -> None:
    """Against the divergence of k + 1 classes, by hand; unused entries may name any class."""
    torch.manual_seed(3)
    ours, theirs = torch.randn(4, 8), torch.randn(4, 8) * 2
    weights, ids = theirs.softmax(-1).topk(3)
    stored = {
        "ids": torch.cat((ids, torch.zeros(4, 2, dtype=torch.int64)), 1),
        "weights": torch.cat((weights, torch.zeros(4, 2)), 1),
    }
    expected = 0.0
    for label in range(4):
        there = [*weights[label].tolist(), 1 - float(weights[label].sum())]
        here = softmax(ours[label], 1.0)
        kept = [here[number] for number in ids[label].tolist()]
        expected += slow_divergence(there, [*kept, 1 - sum(kept)])
    assert float(scored(ours, stored, torch.ones(4))) == pytest.approx(expected, rel=1e-4)


def test_shares_of_draws_have_no_rest() -> None:
    """Their gradient is softmax minus shares, whose mean over all draws is the gradient of a full teacher."""
    theirs = torch.tensor([[0.6, 0.3, 0.1]])
    gradients, full = [], torch.zeros(1, 3)
    for draws in product(range(3), repeat=2):
        ours = torch.tensor([[0.4, -1.0, 0.3]], requires_grad=True)
        classes = sorted(set(draws))
        ids = torch.tensor([classes + [0] * (2 - len(classes))])
        shares = torch.tensor([[draws.count(one) / 2 for one in classes] + [0.0] * (2 - len(classes))])
        scored(ours, {"ids": ids, "weights": shares.half()}, torch.ones(1), how="drawn").backward()
        counts = torch.bincount(torch.tensor(draws), minlength=3) / 2
        assert ours.grad is not None
        assert torch.allclose(ours.grad, ours.detach().softmax(-1) - counts, atol=1e-6)
        chance = math.prod(float(theirs[0, one]) for one in draws)
        gradients.append(chance * ours.grad)
        full = ours.detach().softmax(-1) - theirs
    assert torch.allclose(torch.stack(gradients).sum(0), full, atol=1e-6)
    # top-k with one class for the rest moves the others in proportion: a bias wherever they differ
    ours = torch.tensor([[0.4, -1.0, 0.3]], requires_grad=True)
    scored(ours, {"ids": torch.tensor([[0]]), "weights": torch.tensor([[0.6]])}, torch.ones(1)).backward()
    assert ours.grad is not None
    assert (ours.grad - full).abs().max() > 0.05


def test_shares_that_do_not_add_up_in_f16_are_no_rest() -> None:
    """Thirds: 0.9998 in all."""
    shares = torch.full((1, 3), 1 / 3).half()
    assert float(shares.float().sum()) < 1
    stored = {"ids": torch.tensor([[0, 1, 2]]), "weights": shares}
    ours = torch.tensor([[0.0, 0.0, 0.0, 30.0]])
    expected = sum(float(shares[0, one]) * (math.log(float(shares[0, one])) + 30.0) for one in range(3))
    assert float(scored(ours, stored, torch.ones(1), how="drawn")) == pytest.approx(expected, abs=1e-4)
    rest = 1 - float(shares.float().sum())
    top = float(scored(ours, stored, torch.ones(1)))
    assert top == pytest.approx(expected + rest * math.log(rest), abs=1e-4)


def stored_batch(k: int = 4) -> dict[str, Tensor]:
    tensors = batch()
    torch.manual_seed(4)
    weights, ids = (torch.randn(len(tensors["label_ids"]), VOCABULARY) * 3).softmax(-1).topk(k)
    return {**tensors, "teacher_ids": ids, "teacher_weights": weights}


def test_a_student_without_a_teacher_reads_stored_scores() -> None:
    student = Student(model(2), [loss("scores", temperature=2.0)], None)
    tensors = stored_batch()
    found = student.eval()(tensors)["distil/scores"]
    logits = student.logits(tensors)["masked_lm"].detach().flatten(0, 1)[tensors["label_index"]]
    weights = torch.tensor([1.0, 0.0, *[1.0] * 4, 0.0, 0.0])  # an ignored label, and a filler row
    stored = {"ids": tensors["teacher_ids"], "weights": tensors["teacher_weights"]}
    assert found.count == 5
    assert float(found.total.detach()) == pytest.approx(
        float(scored(logits, stored, weights, temperature=2.0)), rel=1e-5
    )
    # entries of padded labels weigh nothing
    padded = pad_labels(tensors, 13)
    assert padded["teacher_ids"].shape == (13, 4)
    assert float(student(padded)["distil/scores"].total.detach()) == pytest.approx(
        float(found.total.detach()), rel=1e-5
    )


def test_training_needs_stored_scores_and_an_evaluation_does_not() -> None:
    student = Student(model(2), [loss("scores")], None)
    with pytest.raises(BatchError, match=r"the loss scores needs teacher_ids, teacher_weights, or distil\.teacher"):
        student.train()(batch())
    assert list(student.eval()(batch())) == ["masked_lm"]
    counter = student.counted["distil/scores"]
    assert (counter.count(batch()), counter.count(stored_batch())) == (0, 5)


def test_the_head_is_the_one_that_both_have() -> None:
    heads = {"masked_lm": 1.0, "classification": {"classes": 3}, "regression": 1.0}
    student, teacher = pair(model(heads=heads), model(), loss("scores"))
    assert student.distillation["scores"].head == "masked_lm"
    assert list(teacher.model.heads) == ["masked_lm"]
    for options, there, message in (
        ({}, heads, "a head with classes that both models have, masked_lm, classification; got none"),
        ({"head": "regression"}, heads, "got regression"),
        (
            {"head": "classification"},
            {"classification": {"classes": 2}},
            "other labels than the teacher's: 3 here, 2 there",
        ),
        ({}, {"regression": 1.0}, "got none"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            pair(model(heads=heads), model(heads=there), loss("scores", **options))


def test_classes_of_rows() -> None:
    heads = {"classification": {"classes": 4, "weight": 1.0}}
    student, teacher = pair(model(2, heads=heads), model(heads=heads), loss("scores", temperature=1.5))
    tensors = {**batch(), "label": torch.tensor([1, -100, 3, 2])}
    found = student.eval()({**tensors, **teacher(tensors)})["distil/scores"]
    ours, theirs = (one.logits(tensors)["classification"] for one in (student, teacher.model))
    expected = sum(slow_divergence(softmax(theirs[row], 1.5), softmax(ours[row], 1.5)) for row in (0, 2))
    assert found.count == 2
    assert float(found.total.detach()) == pytest.approx(1.5**2 * expected, rel=1e-4)
