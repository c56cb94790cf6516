"""The loss between scores of a student and of its teacher, computed or stored."""

import math

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.extensions.compression.distillation.student import Student
from clozeline.model.compilation.host_shapes import pad_labels
from tests.extensions.compression.distillation.losses.slow_losses import slow_divergence
from tests.extensions.compression.distillation.pairs import VOCABULARY, batch, loss, model, pair
from tests.refusals import refused


def softmax(logits, temperature=1.0):
    powers = [math.exp(value / temperature) for value in logits.tolist()]
    return [power / sum(powers) for power in powers]


def scored(logits, theirs, weights, **options):
    """The loss of given logits of the student."""
    live = "logits_masked_lm" in theirs
    built = loss("scores", **options).build(model().config, model().config if live else None)
    return built({"logits_masked_lm": logits}, theirs, weights)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_divergence_is_summed_over_classes_and_weighed_by_label(temperature):
    """The same from a teacher in memory, and from all its classes stored in any order."""
    torch.manual_seed(0)
    ours = torch.randn(5, 7) * 2
    theirs = torch.randn(5, 7) * 2
    weights = torch.tensor([1.0, 0.0, 0.5, 1.0, 2.0])
    pairs = zip(ours, theirs, weights, strict=True)
    expected = temperature**2 * sum(
        float(weight) * slow_divergence(softmax(there, temperature), softmax(here, temperature))
        for here, there, weight in pairs
    )
    order = torch.rand(5, 7).argsort(-1)
    stored = {"ids": order, "weights": (theirs / temperature).softmax(-1).gather(1, order)}
    gradients = []

    for teacher in ({"logits_masked_lm": theirs}, stored):
        student = ours.clone().requires_grad_()
        found = scored(student, teacher, weights, temperature=temperature)
        assert float(found.detach()) == pytest.approx(expected, rel=1e-5)
        found.backward()
        gradients.append(student.grad)

    assert (gradients[1] - gradients[0]).abs().max() <= 1e-6 * temperature**2


def test_classes_that_are_not_stored_are_one_class_unless_classes_were_drawn():
    """Unused entries may name any class.

    Thirds add up to .9998 in 16 bits: as draws, they have no rest.
    """
    torch.manual_seed(3)
    ours = torch.randn(4, 8)
    theirs = torch.randn(4, 8) * 2
    weights, ids = theirs.softmax(-1).topk(3)
    stored = {
        "ids": torch.cat((ids, torch.zeros(4, 2, dtype=torch.int64)), 1),
        "weights": torch.cat((weights, torch.zeros(4, 2)), 1),
    }
    expected = 0.0

    for label in range(4):
        here = softmax(ours[label])
        kept = [here[number] for number in ids[label].tolist()]
        there = weights[label].tolist()
        expected += slow_divergence([*there, 1 - sum(there)], [*kept, 1 - sum(kept)])

    assert float(scored(ours, stored, torch.ones(4))) == pytest.approx(expected, rel=1e-4)

    share = float(torch.tensor(1 / 3).half())
    thirds = {"ids": torch.tensor([[0, 1, 2]]), "weights": torch.full((1, 3), 1 / 3).half()}
    logits = torch.tensor([[0.0, 0.0, 0.0, 30.0]])
    drawn = 3 * share * (math.log(share) + 30.0)

    assert float(scored(logits, thirds, torch.ones(1), how="drawn")) == pytest.approx(
        drawn, abs=1e-4
    )

    rest = 1 - 3 * share

    assert float(scored(logits, thirds, torch.ones(1))) == pytest.approx(
        drawn + rest * math.log(rest), abs=1e-4
    )


def stored_batch(k=4):
    tensors = batch()
    torch.manual_seed(4)
    weights, ids = (torch.randn(len(tensors["label_ids"]), VOCABULARY) * 3).softmax(-1).topk(k)
    return {**tensors, "teacher_ids": ids, "teacher_weights": weights}


def test_a_student_without_a_teacher_reads_stored_scores():
    student = Student(model(2), [loss("scores", temperature=2.0)], None)
    tensors = stored_batch()
    found = student.eval()(tensors)["distil/scores"]
    logits = student.logits(tensors)["masked_lm"].detach().flatten(0, 1)[tensors["label_index"]]
    weights = torch.tensor([1.0, 0.0, *[1.0] * 4, 0.0, 0.0])  # an ignored label, and a filler row
    stored = {"ids": tensors["teacher_ids"], "weights": tensors["teacher_weights"]}
    total = float(scored(logits, stored, weights, temperature=2.0))

    assert (float(found.total.detach()), found.count) == (pytest.approx(total, rel=1e-5), 5)
    # entries of padded labels weigh nothing
    padded = pad_labels(tensors, 13)
    assert float(student(padded)["distil/scores"].total.detach()) == pytest.approx(total, rel=1e-5)
    # training needs stored scores, an evaluation does not
    with pytest.raises(
        BatchError,
        match=r"the loss scores needs teacher_ids, teacher_weights, or set distil\.teacher",
    ):
        student.train()(batch())

    assert list(student.eval()(batch())) == ["masked_lm"]

    counter = student.divisors["distil/scores"]

    assert (counter.count(batch()), counter.count(tensors)) == (0, 5)


def test_the_head_is_the_one_that_both_have():
    heads = {"masked_lm": 1.0, "classification": {"classes": 3}, "regression": 1.0}
    student, teacher = pair(model(heads=heads), model(), loss("scores"))

    assert student.distillation["scores"].head == "masked_lm"
    assert list(teacher.model.heads) == ["masked_lm"]

    two = {"classification": {"classes": 2}}
    for options, there, message in (
        (
            {},
            heads,
            "a head with classes that both models have: masked_lm, classification; got none",
        ),
        ({"head": "regression"}, heads, "got regression"),
        (
            {"head": "classification"},
            two,
            "other labels in the student \\(3\\) than in the teacher \\(2\\)",
        ),
        ({}, {"regression": 1.0}, "got none"),
    ):
        with refused(message):
            pair(model(heads=heads), model(heads=there), loss("scores", **options))
