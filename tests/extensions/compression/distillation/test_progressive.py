"""Transfer layer by layer: what counts and is trained at each step, against distances written out.

And refusals.
"""

import pytest
import torch

from clozeline.extensions.compression.distillation.observation import observe
from clozeline.extensions.compression.distillation.student import Student
from tests.extensions.compression.distillation.pairs import batch, loss, model
from tests.refusals import refused

LOSSES = [
    loss("states", weight=2.0),
    loss("attention"),
    loss("embeddings"),
    loss("scores"),
    loss("cosine"),
]


def test_each_stage_compares_one_layer_and_the_last_what_has_no_layers():
    teacher = model(7, layers=5).eval()
    student = Student(model(2), LOSSES, teacher.config, progressive=10).eval()

    assert student.layer_maps["states"] == {"1": 1, "2": 3, "3": 5}

    tensors = batch()
    stages = student.stages
    wanted = {f"state_{layer}" for layer in range(6)} | {
        f"attention_{layer}" for layer in range(1, 6)
    }
    with torch.no_grad(), observe(teacher, wanted | {"visible_1", "logits_masked_lm"}) as theirs:
        teacher(tensors)
    given = {**tensors, **{f"teacher_{name}": tensor for name, tensor in theirs.items()}}
    given |= {f"teacher_visible_{layer}": theirs["visible_1"] for layer in range(1, 6)}
    with torch.no_grad(), observe(student, wanted) as ours:
        student.family(tensors)
    real = torch.arange(11) < tensors["lengths"][:, None]
    real &= (tensors["row_weight"] != 0)[:, None]
    expected_weights = {1: (2.0, 1.0, 1.0), 2: (2.0, 1.0, 0.0), 3: (2.0, 1.0, 0.0)}

    for step, stage in ((1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (30, 3)):
        stages.enter(step)
        there = {1: 1, 2: 3, 3: 5}[stage]
        with torch.no_grad():
            found = student(given)
        squares = (ours[f"state_{stage}"] - theirs[f"state_{there}"]).square().mean(-1)

        assert float(found["distil/states"].total) == pytest.approx(
            float(squares[real].sum()), rel=1e-5
        )

        scores = 0.0
        keys = [(row, query) for row, query in real.nonzero().tolist()]
        for row, query in keys:
            seen = slice(0, int(tensors["lengths"][row]))
            pair = (
                made[f"attention_{layer}"][row, :, query, seen]
                for made, layer in ((ours, stage), (theirs, there))
            )
            scores += float((next(pair) - next(pair)).square().mean())

        assert float(found["distil/attention"].total) == pytest.approx(scores, rel=1e-4)

        names = ("distil/states", "distil/attention", "distil/embeddings")

        assert tuple(student.loss_weights[name] for name in names) == expected_weights[stage]
        assert {
            student.loss_weights[name] for name in ("masked_lm", "distil/scores", "distil/cosine")
        } == {0.0}
        assert list(stages.trained_depths) == {1: [3, 4], 2: [2], 3: [1]}[stage]

    for step in (31, 1000):
        stages.enter(step)
        weights = student.loss_weights
        assert [
            weights[name] for name in ("masked_lm", "distil/scores", "distil/cosine", *names)
        ] == [1, 1, 1, 0, 0, 0]
        assert list(stages.trained_depths) == [0, 1, 2, 3, 4]

    stages.enter(1)  # a resumed run may begin anywhere

    assert student.distillation["states"].layers == {1: 1}


@pytest.mark.parametrize(
    ("found", "changes", "expected"),
    [
        ([loss("scores")], {}, "each of the 3 layers needs a loss .* none compares 1, 2, 3"),
        ([loss("embeddings")], {}, "none compares 1, 2, 3"),
        ([loss("states", layers={1: 2, 2: 3}), loss("relations")], {}, "none compares 3"),
        (
            [loss("states", layers={1: 2, 3: 5}), loss("attention", layers={1: 1})],
            {},
            "none compares 2: add them",
        ),
        ([loss("states")], {"dim": 12}, "set model.dim to the teacher's width"),
    ],
)
def test_layers_that_nothing_compares_are_refused(found, changes, expected):
    with refused(rf"distil\.progressive.*{expected}"):
        Student(model(2, **changes), found, model(7, layers=5).config, progressive=1)
