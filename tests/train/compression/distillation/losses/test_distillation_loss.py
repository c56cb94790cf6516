"""The contract of every loss of distillation."""

from __future__ import annotations

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.registry import names
from clozeline.train.compression.distillation.losses._distillation_loss import map_layers
from tests.train.compression.distillation.pairs import LOSSES, VOCABULARY, batch, loss, model, pair, rows_of

NAMES = names(LOSSES)
EQUAL_HEADS = {"attention"}
EQUAL_WIDTH = {"cosine"}


@pytest.mark.parametrize("name", NAMES)
def test_an_equal_student_has_no_loss_and_no_gradient(name: str) -> None:
    student, teacher = pair(model(), model(), loss(name))
    student.eval()
    tensors = batch()
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]
    found.total.backward()
    assert abs(float(found.total.detach())) <= 1e-5
    gradients = [parameter.grad for parameter in student.parameters() if parameter.grad is not None]
    assert gradients
    assert max(float(gradient.abs().max()) for gradient in gradients) <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_of_another_student_has_gradients(name: str) -> None:
    """Of other depth, and of other width and heads where the loss allows it."""
    sizes = {} if name in EQUAL_WIDTH else {"dim": 12} if name in EQUAL_HEADS else {"dim": 10, "attention_heads": 2}
    options = {"relation_heads": 5} if name == "relations" else {}
    student, teacher = pair(model(2, layers=2, **sizes), model(), loss(name, **options))
    tensors = batch()
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]
    assert found.total > 1e-3
    found.total.backward()
    trained = [
        own for own, parameter in student.named_parameters() if parameter.grad is not None and parameter.grad.any()
    ]
    assert len(trained) > 2
    assert all(own in trained for own, _ in student.new_parameters())


@pytest.mark.parametrize("name", NAMES)
def test_micro_batches_add_up(name: str) -> None:
    student, teacher = pair(model(2), model(), loss(name))
    student.eval()
    whole = batch((7, 4, 9, 2), filler=2)
    parts = [rows_of(whole, first, last) for first, last in ((0, 1), (1, 4), (4, 6))]
    expected = student({**whole, **teacher(whole)})[f"distil/{name}"]
    found = [student({**part, **teacher(part)})[f"distil/{name}"] for part in parts]
    assert sum(float(one.total.detach()) for one in found) == pytest.approx(float(expected.total.detach()), rel=1e-5)
    counter = student.counted[f"distil/{name}"]
    assert sum(one.count for one in found) == expected.count == counter.count(whole)
    assert expected.count == (7 if name == "scores" else 7 + 4 + 9 + 2)
    assert (found[2].count, float(found[2].total.detach())) == (0, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_padding_filler_and_ignored_labels_add_nothing(name: str) -> None:
    student, teacher = pair(model(2), model(), loss(name))
    student.eval()
    tensors, changed = batch(), batch()
    padding = torch.arange(11) >= tensors["lengths"][:, None]
    padding[3] = True  # the filler row
    changed["input_ids"] = torch.where(padding, (tensors["input_ids"] + 7) % VOCABULARY, tensors["input_ids"])
    wider = {**batch(columns=11), "input_ids": torch.nn.functional.pad(tensors["input_ids"], (0, 3), value=5)}
    wider["position_ids"] = torch.arange(14).repeat(4, 1)
    wider["label_index"] = tensors["label_index"] // 11 * 14 + tensors["label_index"] % 11
    totals = [student({**one, **teacher(one)})[f"distil/{name}"].total for one in (tensors, changed, wider)]
    assert float(totals[1].detach()) == pytest.approx(float(totals[0].detach()), rel=1e-6)
    assert float(totals[2].detach()) == pytest.approx(float(totals[0].detach()), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_without_labels_has_a_loss_over_tokens_alone(name: str) -> None:
    student, teacher = pair(model(2), model(), loss(name))
    tensors = {
        **batch(),
        "label_index": torch.zeros(0, dtype=torch.int64),
        "label_ids": torch.zeros(0, dtype=torch.int64),
    }
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]
    assert bool(found.total) == bool(found.count) == (name != "scores")


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [
        (4, 12, [3, 6, 9, 12]),  # TinyBERT with four layers
        (6, 12, [2, 4, 6, 8, 10, 12]),
        (3, 6, [2, 4, 6]),
        (5, 12, [2, 4, 7, 9, 12]),
        (4, 4, [1, 2, 3, 4]),
    ],
)
def test_layers_are_spread_to_the_last(student: int, teacher: int, expected: list[int]) -> None:
    for first in (0, 1):
        assert map_layers({}, student, teacher, "key", first) == dict(enumerate(expected, start=1))


def test_a_map_keeps_its_layers_in_order_and_refuses_others() -> None:
    assert list(map_layers({2: 4, 1: 2}, 2, 4, "key").items()) == [(1, 2), (2, 4)]
    for layers, first, message in (
        ({0: 1}, 1, "key: the student has the layers 1 to 2, got 0"),
        ({3: 1}, 0, "key: the student has the layers 0 to 2, got 3"),
        ({1: 5}, 0, "key: the teacher has the layers 0 to 4, got 5"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            map_layers(layers, 2, 4, "key", first)
