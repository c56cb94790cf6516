from __future__ import annotations

import math

import pytest

from clozeline.errors import ConfigurationError
from tests.train.compression.distillation.pairs import batch, loss, model, pair


def test_one_minus_the_cosine_of_the_last_states_of_real_tokens() -> None:
    student, teacher = pair(model(2, layers=2), model(layers=4), loss("cosine"))
    student.eval()
    tensors = batch()
    ours, theirs = (one.family(tensors).tolist() for one in (student, teacher.model))
    expected = 0.0
    for row, length in enumerate((7, 4, 9)):
        for here, there in zip(ours[row][:length], theirs[row][:length], strict=True):
            product = sum(a * b for a, b in zip(here, there, strict=True))
            expected += 1 - product / math.dist(here, [0] * 15) / math.dist(there, [0] * 15)
    found = student({**tensors, **teacher(tensors)})["distil/cosine"]
    assert found.count == 20
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_other_widths_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="got 12 of the student and 15 of the teacher: take the loss states"):
        pair(model(dim=12), model(), loss("cosine"))
