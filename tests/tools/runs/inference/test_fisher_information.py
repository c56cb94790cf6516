"""Fisher information against closed forms, and a first task that is kept while a second is learned."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.heads._head import LabelHead
from clozeline.tools.runs.inference.fisher_information import diagonal_fisher, require_drawable_labels
from clozeline.train.optim.regularizers._regularizer import pull
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


FEATURES = 10


class TwoTasks:
    """Halves of a space, asked for by two markers; the second is turned away from the first by an obtuse angle."""

    def __init__(self, seed):
        self.draw = torch.Generator().manual_seed(seed)
        first, other = torch.randn(2, FEATURES, generator=self.draw)
        first /= first.norm()
        across = other - (other @ first) * first
        self.normals = first, across / across.norm() - 0.7 * first

    def batch(self, task, size):
        vectors = torch.randn(size, FEATURES, generator=self.draw)
        markers = torch.zeros(size, 2)
        markers[:, task] = 3.0
        return torch.cat([vectors, markers], 1), (vectors @ self.normals[task] > 0).long()


def accuracy(model, tasks, task):
    vectors, labels = tasks.batch(task, 2000)
    with torch.no_grad():
        scores = model.heads["masked_lm"].map(model.body(vectors))
    return float((scores.argmax(-1) == labels).float().mean())


def learn(model, tasks, task, steps, kept=None):
    """Plain gradient descent at 0.05 in batches of 64; `kept` holds (anchor, strength) of each parameter."""
    for _ in range(steps):
        loss = model(rows(*tasks.batch(task, 64)))["masked_lm"].total / 64
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None
                parameter -= 0.05 * parameter.grad
                if kept:
                    pull(parameter, *kept[name], 0.05)


@pytest.fixture(scope="module")
def first_task():
    """Models that have learned the first task, with what they need to keep it, by seed."""
    found = []
    for seed in (0,):
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Linear(FEATURES + 2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        model, tasks = Small(body, Classes(64, 2, bias=True)), TwoTasks(seed)
        learn(model, tasks, 0, 2000)
        fisher = diagonal_fisher(model, one_by_one(*tasks.batch(0, 256)), seed)
        found.append((model, fisher, seed))
    return found


def second_task(first_task, method, strength):
    """Accuracy on the first task before and after the second, and on the second; means over the seeds."""
    scores = []
    for model, fisher, seed in first_task:
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        tasks = TwoTasks(seed)
        before = accuracy(model, tasks, 0)
        weigh = {"ewc": lambda f: strength * f, "l2_sp": lambda f: torch.full_like(f, strength), "plain": None}[method]
        kept = weigh and {name: (start[name], weigh(fisher[name])) for name in start}
        learn(model, tasks, 1, 800, kept)
        scores.append((before, accuracy(model, tasks, 0), accuracy(model, tasks, 1)))
        model.load_state_dict(start)
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "strength"),
    [
        pytest.param("ewc", 100.0, id="ewc"),
        pytest.param("ewc", 1e8, id="ewc of any strength"),
        pytest.param("l2_sp", 0.1, id="l2_sp"),
    ],
)
def test_a_first_task_is_kept(first_task, method, strength):
    """Plain training loses a third of the first task; a pull saves more than half, and the second is learned."""
    before, plain, learned = second_task(first_task, "plain", 0.0)
    assert before > 0.97
    assert learned > 0.97
    assert before - plain > 0.25
    _, after, learned = second_task(first_task, method, strength)
    assert before - after < (before - plain) / 2
    assert learned > 0.94
