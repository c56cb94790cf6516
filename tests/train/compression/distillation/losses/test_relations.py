from __future__ import annotations

import math
from typing import Any

import pytest
from torch import Tensor

from clozeline.errors import ConfigurationError
from tests.train.compression.distillation.pairs import batch, loss, model, pair


def vectors(one: Any, tensors: dict[str, Tensor], layer: int, name: str) -> list[Any]:
    """Queries, keys or values of a layer [B][T][width], from its own matrix and the states before it (pre-norm)."""
    states = one.family.layer_states(tensors)[layer - 1]
    block = one.family.stack.layers[layer - 1].attention
    inner = next(part for part in block.modules() if hasattr(part, "query"))
    return getattr(inner, name)(block.norm(states)).tolist()


def relations(rows: list[list[float]], first: int, last: int) -> list[list[float]]:
    """softmax(x_i · x_j / √width) of the features `first .. last`."""
    found = []
    for query in rows:
        products = [sum(a * b for a, b in zip(query[first:last], key[first:last], strict=True)) for key in rows]
        powers = [math.exp(product / math.sqrt(last - first)) for product in products]
        found.append([power / sum(powers) for power in powers])
    return found


@pytest.mark.parametrize(("heads", "of"), [(5, ("query", "key", "value")), (1, ("value",))])
def test_divergence_of_relations_between_models_of_other_width_and_heads(heads: int, of: tuple[str, ...]) -> None:
    names = {"query": "queries", "key": "keys", "value": "values"}
    chosen = loss("relations", relation_heads=heads, of=[names[name] for name in of], teacher_layer=2)
    student, teacher = pair(model(2, layers=2, dim=10, attention_heads=2), model(), chosen)
    student.eval()
    tensors = batch()
    expected = 0.0
    for name in of:
        ours, theirs = vectors(student, tensors, 2, name), vectors(teacher.model, tensors, 2, name)
        for row, length in enumerate((7, 4, 9)):
            for head in range(heads):
                here = relations(ours[row][:length], head * 10 // heads, (head + 1) * 10 // heads)
                there = relations(theirs[row][:length], head * 15 // heads, (head + 1) * 15 // heads)
                for p, q in zip(there, here, strict=True):
                    expected += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / heads
    found = student({**tensors, **teacher(tensors)})["distil/relations"]
    assert found.count == 20
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)


def test_the_last_layer_and_the_heads_of_the_teacher_are_the_default() -> None:
    student, _ = pair(model(layers=2), model(layers=4), loss("relations"))
    built = student.distillation["relations"]
    assert (built.layers, built.heads) == ({2: 4}, 3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="4 heads do not divide the vectors of the teacher, 15 wide"):
        pair(model(dim=12), model(), loss("relations", relation_heads=4))
    with pytest.raises(ConfigurationError, match="3 heads do not divide the vectors of the student, 10 wide"):
        pair(model(dim=10, attention_heads=2), model(), loss("relations"))
    with pytest.raises(ConfigurationError, match="teacher_layer: the teacher has the layers 1 to 3, got 4"):
        pair(model(), model(), loss("relations", teacher_layer=4))
    grouped = model(dim=12, attention_heads=4, kv_heads=2)
    with pytest.raises(ConfigurationError, match="4 heads do not divide the vectors of the student, 6 wide"):
        pair(grouped, model(dim=12, attention_heads=4), loss("relations"))
