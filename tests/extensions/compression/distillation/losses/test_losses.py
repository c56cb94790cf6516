"""Losses of distillation: the contract of each, and its values written out by token, layer and
class."""

import math

import pytest
import torch

from clozeline.extensions.compression.distillation.losses._distillation_loss import map_layers
from clozeline.extensions.compression.distillation.observation import observe
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES
from tests.contracts import contract
from tests.extensions.compression.distillation.losses.slow_losses import slow_divergence
from tests.extensions.compression.distillation.pairs import (
    VOCABULARY,
    batch,
    compared,
    loss,
    model,
    pair,
    rows_of,
)
from tests.refusals import refused

LENGTHS = (7, 4, 9)


@contract(DISTILLATION_LOSSES)
def test_an_equal_student_has_no_loss_and_no_gradient(name):
    student, teacher = pair(model(), model(), loss(name))
    tensors = batch()
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]
    found.total.backward()

    assert abs(float(found.total.detach())) <= 1e-5

    gradients = [parameter.grad for parameter in student.parameters() if parameter.grad is not None]

    assert gradients
    assert max(float(gradient.abs().max()) for gradient in gradients) <= 1e-4


@contract(DISTILLATION_LOSSES)
def test_the_loss_of_another_student_has_gradients(name):
    """Of other depth, and of other width and heads where the loss allows it."""
    kind = DISTILLATION_LOSSES.load_class(name)
    sizes = {"dim": 12} if kind.compares_heads else {"dim": 10, "attention_heads": 2}
    sizes = {} if kind.compares_dimensions else sizes
    options = {"relation_heads": 5} if name == "relations" else {}
    student, teacher = pair(model(2, layers=2, **sizes), model(), loss(name, **options))
    tensors = batch()
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]

    assert found.total > 1e-3

    found.total.backward()
    trained = [
        own
        for own, parameter in student.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    ]

    assert len(trained) > 2
    assert all(own in trained for own, _ in student.new_parameters())


def reads_labels(student):
    """Whether the loss compares what a head scores, instead of states of tokens."""
    (found,) = student.distillation.values()
    return found.head is not None


@contract(DISTILLATION_LOSSES)
def test_micro_batches_add_up(name):
    student, teacher = pair(model(2), model(), loss(name))
    whole = batch((7, 4, 9, 2), filler=2)
    total, count = compared(student, teacher, whole, name)
    parts = [
        compared(student, teacher, rows_of(whole, *rows), name) for rows in ((0, 1), (1, 4), (4, 6))
    ]

    assert sum(one for one, _ in parts) == pytest.approx(total, rel=1e-5)
    assert sum(one for _, one in parts) == count == student.divisors[f"distil/{name}"].count(whole)
    assert count == (7 if reads_labels(student) else 7 + 4 + 9 + 2)
    assert parts[2] == (0.0, 0)


@contract(DISTILLATION_LOSSES)
def test_padding_filler_and_ignored_labels_add_nothing(name):
    student, teacher = pair(model(2), model(), loss(name))
    tensors = batch()
    changed = batch()
    padding = torch.arange(11) >= tensors["lengths"][:, None]
    padding[3] = True  # the filler row
    changed["input_ids"] = torch.where(
        padding, (tensors["input_ids"] + 7) % VOCABULARY, tensors["input_ids"]
    )
    wider = {
        **batch(columns=11),
        "input_ids": torch.nn.functional.pad(tensors["input_ids"], (0, 3), value=5),
    }
    wider["position_ids"] = torch.arange(14).repeat(4, 1)
    wider["label_index"] = tensors["label_index"] // 11 * 14 + tensors["label_index"] % 11
    totals = [compared(student, teacher, one, name)[0] for one in (tensors, changed, wider)]

    assert totals[1:] == pytest.approx([totals[0]] * 2, rel=1e-5)


@contract(DISTILLATION_LOSSES)
def test_a_batch_without_labels_has_a_loss_over_tokens_alone(name):
    student, teacher = pair(model(2), model(), loss(name))
    none = torch.zeros(0, dtype=torch.int64)
    total, count = compared(
        student, teacher, {**batch(), "label_index": none, "label_ids": none}, name
    )

    assert bool(total) == bool(count) == (not reads_labels(student))


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [(4, 12, [3, 6, 9, 12]), (5, 12, [2, 4, 7, 9, 12]), (4, 4, [1, 2, 3, 4])],
)
def test_layers_are_spread_to_the_last(student, teacher, expected):
    for first in (0, 1):
        assert map_layers({}, student, teacher, "key", first) == dict(enumerate(expected, start=1))
    assert list(map_layers({2: 4, 1: 2}, 2, 4, "key").items()) == [(1, 2), (2, 4)]


RELATIVE = {"position": {"kind": "none", "disentangled": {}}}


XLNET = {
    "family": "xlnet",
    "position": {"kind": "sinusoidal"},
    "bias": {"qkv": False, "out": False},
    "dim": 12,
}


@pytest.mark.parametrize(
    ("student", "teacher", "name", "options", "message"),
    [
        (
            {"attention_heads": 5},
            {},
            "attention",
            {},
            "has 5 heads and the teacher 3: use the loss relations",
        ),
        (RELATIVE, {}, "attention", {}, "the student has disentangled attention"),
        (
            {"dim": 12},
            {},
            "cosine",
            {},
            "the student has 12 and the teacher 15: use the loss states",
        ),
        (
            {},
            {},
            "states",
            {"layers": {4: 1}},
            "states.layers: the student has the layers 0 to 3, got 4",
        ),
        ({}, XLNET, "states", {}, "the teacher's family xlnet has none: use the loss scores"),
        (
            {"dim": 12},
            {},
            "relations",
            {"relation_heads": 4},
            "the teacher are 15 wide, not a multiple of 4 heads",
        ),
        (
            {"dim": 12, "attention_heads": 4, "kv_heads": 2},
            {"dim": 12, "attention_heads": 4},
            "relations",
            {},
            "vectors of the student are 6 wide, not a multiple of 4 heads",
        ),
    ],
)
def test_models_that_cannot_be_compared_are_refused(student, teacher, name, options, message):
    with refused(message):
        pair(model(**student), model(**teacher), loss(name, **options))


def vectors(one, tensors, layer, name):
    """Queries, keys or values of a layer [B, T, width], from its own matrix and the states before
    it (pre-norm)."""
    states = one.family.layer_states(tensors)[layer - 1]
    block = one.family.stack.layers[layer - 1].attention
    inner = next(part for part in block.modules() if hasattr(part, "query"))
    return getattr(inner, name)(block.norm(states)).detach()


def products(one, tensors, layer):
    """Q Kᵀ / √head_dim of three heads of a layer, [B, 3, T, T]."""
    query, key = (
        vectors(one, tensors, layer, name).unflatten(-1, (3, -1)).transpose(1, 2)
        for name in ("query", "key")
    )
    return query @ key.mT / query.shape[-1] ** 0.5


def test_mean_square_over_heads_tokens_and_visible_keys():
    student, teacher = pair(model(2, layers=2, dim=12), model(layers=4), loss("attention"))
    tensors = batch()
    expected = 0.0

    for here, there in ((1, 2), (2, 4)):
        difference = products(student, tensors, here) - products(teacher.model, tensors, there)
        for row, length in enumerate(LENGTHS):
            square = difference[
                row, :, :length, :length
            ].square()  # padding is neither query nor key
            expected += float(square.mean(-1).mean(0).sum())

    assert compared(student, teacher, tensors, "attention")[0] == pytest.approx(expected, rel=1e-4)


def test_keys_that_one_of_the_models_does_not_see_are_not_compared():
    local = {"position": {"kind": "rope"}, "dim": 12, "local": {"window": 2, "global_every": 2}}
    student, teacher = pair(
        model(2, **local), model(**{**local, "local": None}), loss("attention", layers={2: 2})
    )
    tensors = batch((11,), filler=0)
    wanted = {"attention_2"}

    with (
        torch.no_grad(),
        observe(student, wanted) as ours,
        observe(teacher.model, wanted) as theirs,
    ):
        student.family(tensors)
        teacher.model.family(tensors)

    square = (ours["attention_2"] - theirs["attention_2"])[0].square().mean(0)
    expected = sum(float(square[one, max(0, one - 2) : one + 3].mean()) for one in range(11))

    assert compared(student, teacher, tensors, "attention")[0] == pytest.approx(expected, rel=1e-5)


def test_one_minus_the_cosine_of_the_last_states_of_real_tokens():
    student, teacher = pair(model(2, layers=2), model(layers=4), loss("cosine"))
    tensors = batch()
    expected = 0.0
    ours, theirs = (one.family(tensors).tolist() for one in (student, teacher.model))

    for row, length in enumerate(LENGTHS):
        for here, there in zip(ours[row][:length], theirs[row][:length], strict=True):
            product = sum(a * b for a, b in zip(here, there, strict=True))
            expected += 1 - product / math.dist(here, [0] * 15) / math.dist(there, [0] * 15)

    assert compared(student, teacher, tensors, "cosine") == (pytest.approx(expected, rel=1e-5), 20)


def test_mean_square_of_projected_states_and_embeddings():
    """Written out by token and layer, from the states that the models compute by themselves."""
    chosen = [loss("states", layers={0: 0, 2: 3}), loss("embeddings")]
    student, teacher = pair(model(2, layers=2, dim=12), model(layers=4), *chosen)
    ours, theirs = (one.family.layer_states(batch()) for one in (student, teacher.model))
    matrices = [
        student.get_parameter(f"distillation.{name}.project.weight")
        for name in ("states", "embeddings")
    ]

    assert matrices[0] is not matrices[1], "W_h and W_e are two matrices"

    for name, matrix, layers in zip(
        ("states", "embeddings"), matrices, (((0, 0), (2, 3)), ((0, 0),)), strict=True
    ):
        expected = 0.0

        for here, there in layers:
            for row, length in enumerate(LENGTHS):
                for token in range(length):
                    difference = matrix @ ours[here][row, token] - theirs[there][row, token]
                    expected += float((difference.detach() ** 2).sum()) / 15

        assert compared(student, teacher, batch(), name) == (pytest.approx(expected, rel=1e-5), 20)


def relations(rows, first, last):
    """softmax(x_i · x_j / √width) of the features `first .. last`."""
    found = []

    for query in rows:
        dots = [
            sum(a * b for a, b in zip(query[first:last], key[first:last], strict=True))
            for key in rows
        ]
        powers = [math.exp(product / math.sqrt(last - first)) for product in dots]
        found.append([power / sum(powers) for power in powers])

    return found


@pytest.mark.parametrize(("heads", "of"), [(5, ("query", "key", "value")), (1, ("value",))])
def test_divergence_of_relations_between_models_of_other_width_and_heads(heads, of):
    plural = {"query": "queries", "key": "keys", "value": "values"}
    chosen = loss(
        "relations", relation_heads=heads, of=[plural[name] for name in of], teacher_layer=2
    )
    student, teacher = pair(model(2, layers=2, dim=10, attention_heads=2), model(), chosen)
    tensors = batch()
    expected = 0.0

    for name in of:
        ours, theirs = (vectors(one, tensors, 2, name).tolist() for one in (student, teacher.model))

        for row, length in enumerate(LENGTHS):
            for head in range(heads):
                here = relations(ours[row][:length], head * 10 // heads, (head + 1) * 10 // heads)
                there = relations(
                    theirs[row][:length], head * 15 // heads, (head + 1) * 15 // heads
                )
                expected += (
                    sum(slow_divergence(p, q) for p, q in zip(there, here, strict=True)) / heads
                )

    assert compared(student, teacher, tensors, "relations") == (
        pytest.approx(expected, rel=1e-4),
        20,
    )
