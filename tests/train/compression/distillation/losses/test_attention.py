from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.train.compression.distillation.observation import observe
from tests.train.compression.distillation.pairs import batch, loss, model, pair


def scores(one: Any, tensors: dict[str, Tensor], layer: int) -> Tensor:
    """Q Kᵀ / √head_dim of a layer, [B, heads, T, T], from its own matrices and the states before it (pre-norm)."""
    states = one.family.layer_states(tensors)[layer - 1]
    block = one.family.stack.layers[layer - 1].attention
    normed = block.norm(states)
    inner = next(part for part in block.modules() if hasattr(part, "query"))
    split = [
        linear(normed).view(*states.shape[:2], -1, inner.head_dim).transpose(1, 2)
        for linear in (inner.query, inner.key)
    ]
    return split[0] @ split[1].mT / inner.head_dim**0.5


def test_mean_square_over_heads_tokens_and_visible_keys() -> None:
    student, teacher = pair(model(2, layers=2, dim=12), model(layers=4), loss("attention"))
    student.eval()
    tensors = batch()
    found = student({**tensors, **teacher(tensors)})["distil/attention"]
    expected = 0.0
    for here, there in ((1, 2), (2, 4)):
        ours, theirs = scores(student, tensors, here), scores(teacher.model, tensors, there)
        for row, length in enumerate((7, 4, 9)):
            square = (ours - theirs)[row, :, :length, :length].square()  # padding is neither query nor key
            expected += float(square.mean(-1).mean(0).sum().detach())
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)


def test_without_padding_it_is_the_mean_of_the_paper() -> None:
    """1/h Σ MSE(A_s, A_t) of a layer, where MSE is torch's."""
    student, teacher = pair(model(2), model(), loss("attention", layers={3: 3}))
    student.eval()
    tensors = batch((11, 11), filler=0)
    found = student({**tensors, **teacher(tensors)})["distil/attention"]
    ours, theirs = scores(student, tensors, 3), scores(teacher.model, tensors, 3)
    heads = [torch.nn.functional.mse_loss(ours[:, head], theirs[:, head]) for head in range(3)]
    assert float(found.total.detach()) / found.count == pytest.approx(float(sum(heads).detach()) / 3, rel=1e-5)  # type: ignore[union-attr]


def test_a_causal_student_compares_the_keys_that_it_sees() -> None:
    plain = {"family": "decoder", "heads": {"lm": 1.0}}
    student, teacher = pair(model(2, **plain), model(**plain), loss("attention", layers={1: 1}))
    student.eval()
    tensors = batch((11,), filler=0)
    found = student({**tensors, **teacher(tensors)})["distil/attention"]
    square = (scores(student, tensors, 1) - scores(teacher.model, tensors, 1))[0].square().mean(0)
    expected = sum(float(square[query, : query + 1].mean().detach()) for query in range(11))
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)


def test_keys_that_one_of_the_models_does_not_see_are_not_compared() -> None:
    local = {"position": {"kind": "rope"}, "dim": 12, "local": {"window": 2, "global_every": 2}}
    student, teacher = pair(model(2, **local), model(**{**local, "local": None}), loss("attention", layers={2: 2}))
    student.eval()
    tensors = batch((11,), filler=0)
    wanted = {"attention_2"}
    with observe(student, wanted) as ours, observe(teacher.model, wanted) as theirs:
        student.family(tensors)
        teacher.model.family(tensors)
    square = (ours["attention_2"] - theirs["attention_2"])[0].square().mean(0)
    expected = sum(float(square[one, max(0, one - 2) : one + 3].mean().detach()) for one in range(11))
    found = student({**tensors, **teacher(tensors)})["distil/attention"]
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_unequal_heads_and_relative_attention_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the student has 5 heads, the teacher 3: take the loss relations"):
        pair(model(attention_heads=5), model(), loss("attention"))
    with pytest.raises(ConfigurationError, match="the student's attention is disentangled"):
        pair(model(position={"kind": "none", "disentangled": {}}), model(), loss("attention"))
