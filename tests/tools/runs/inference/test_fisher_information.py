"""Fisher information against closed forms, and a first task that is kept while a second is learned."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.heads._head import LabelHead
from clozeline.tools.runs.inference.fisher_information import diagonal_fisher, require_drawable_labels
from tests.model.small_models import built, full_batch


class Classes(LabelHead):
    """One linear map; a row of a batch is one place with one label."""

    target: ClassVar = "masked_lm"

    def __init__(self, width, classes, *, bias):
        super().__init__()
        self.map = nn.Linear(width, classes, bias=bias)

    def logits(self, hidden):
        return self.map(hidden)


class Small(nn.Module):
    """A body and a head on vectors, with the interface of our models."""

    def __init__(self, body, head):
        super().__init__()
        self.body = body
        self.heads = nn.ModuleDict({"masked_lm": head})

    def forward(self, tensors):
        head = self.heads["masked_lm"]
        return {"masked_lm": head.loss(self.body(tensors["vectors"])[:, None], tensors)}


def rows(vectors, labels):
    number = len(vectors)
    return {
        "vectors": vectors,
        "input_ids": torch.zeros(number, 1),
        "row_weight": torch.ones(number),
        "label_index": torch.arange(number),
        "label_ids": labels,
    }


def one_by_one(vectors, labels):
    for vector, label in zip(vectors, labels, strict=True):
        yield rows(vector[None], label[None])


def test_of_softmax_regression_is_the_closed_form():
    """E over examples of p_j (1 - p_j) x_i², and with the labels of the data ([y = j] - p_j)² x_i²."""
    torch.manual_seed(0)
    model = Small(nn.Identity(), Classes(3, 4, bias=False))
    vectors, labels = torch.randn(1500, 3), torch.randint(0, 4, (1500,))
    with torch.no_grad():
        shares = model.heads["masked_lm"].map(vectors).softmax(-1)
    squares = vectors.square()[:, None]
    found = diagonal_fisher(model, one_by_one(vectors, labels), 1)["heads.masked_lm.map.weight"]
    expected = (shares * (1 - shares))[:, :, None] * squares
    spread = ((1 - shares) * shares * (1 - 2 * shares) ** 2)[:, :, None] * squares.square()  # variance of a draw
    assert ((found - expected.mean(0)).abs() < 4 * spread.sum(0).sqrt() / 1500).all()
    empirical = diagonal_fisher(model, one_by_one(vectors, labels), 1, empirical=True)["heads.masked_lm.map.weight"]
    errors = nn.functional.one_hot(labels, 4) - shares
    torch.testing.assert_close(empirical, (errors.square()[:, :, None] * squares).mean(0))


def test_several_classes_per_row_are_drawn_independently():
    """The bias of a class has E (y - p)² = p (1 - p), as log p(y|x) is a sum over classes."""
    model = built("encoder", heads={"classification": {"classes": 3, "multi_label": True}}).eval()
    require_drawable_labels(model.heads)
    bias = model.heads["classification"].classifier.out.bias
    torch.nn.init.normal_(bias, std=1.5, generator=torch.Generator().manual_seed(0))
    tensors = full_batch()
    row = {name: value[:1] for name, value in tensors.items() if len(value) == len(tensors["input_ids"])}
    row["label"] = torch.tensor([[0, 0, 0]])
    shares = model.logits(row)["classification"][0].detach().sigmoid()
    found = diagonal_fisher(model, [row] * 200, 1)["heads.classification.classifier.out.bias"]
    variance = shares * (1 - shares)
    spread = variance * (1 - 2 * shares) ** 2  # variance of a draw
    assert ((found - variance).abs() < 3 * (spread / 200).sqrt()).all()
    expected = diagonal_fisher(model, [row], 1, empirical=True)["heads.classification.classifier.out.bias"]
    torch.testing.assert_close(expected, shares.square())


def test_only_one_head_with_a_distribution_is_drawn_from():
    head = Classes(3, 4, bias=True)
    require_drawable_labels({"masked_lm": head})
    with pytest.raises(ConfigurationError, match=r"has a, b; set empirical=true"):
        require_drawable_labels({"a": head, "b": head})
    with pytest.raises(ConfigurationError, match=r"model.heads.token: labels cannot be sampled"):
        require_drawable_labels({"token": nn.Linear(1, 1)})
