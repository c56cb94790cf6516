from __future__ import annotations

import pytest

from tests.train.compression.distillation.pairs import batch, loss, model, pair


def test_mean_square_of_the_projected_outputs_of_the_embeddings() -> None:
    student, teacher = pair(model(2, dim=12), model(), loss("embeddings"), loss("states"))
    student.eval()
    tensors = batch()
    ours, theirs = (one.family.layer_states(tensors)[0].detach() for one in (student, teacher.model))
    matrix = student.distillation["embeddings"].project.weight  # type: ignore[union-attr]
    assert matrix is not student.distillation["states"].project.weight, "W_e and W_h are two matrices"  # type: ignore[union-attr]
    mapped = ours @ matrix.detach().T
    expected = sum(
        float(((mapped[row, :length] - theirs[row, :length]) ** 2).sum()) / 15 for row, length in enumerate((7, 4, 9))
    )
    found = student({**tensors, **teacher(tensors)})["distil/embeddings"]
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)
