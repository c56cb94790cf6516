"""InfoNCE against loops over rows: SimCSE's equation 1, and COCO-LM's equation 4 over both
views."""

import math

import pytest
import torch
from torch.nn import functional as F

from clozeline.columns import ROW_TEXT, SECOND_VIEW
from clozeline.errors import BatchError
from clozeline.tools.start.contracts.heads import full_batch
from tests.model.small_models import built, only

TEMPERATURE = 0.5
ROWS = {0: [0, 1], 1: [3, 4]}
"""Rows of each group of three that take part: row 2 has no second view, row 5 no weight."""


def drawn(**options):
    groups = (
        {} if options.get("negatives") == "none" else {"temperature": TEMPERATURE, "group_size": 3}
    )
    network = built("encoder", heads={"similarity": {**groups, **options}}).eval()
    for parameter in network.heads["similarity"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    tensors = full_batch() | {"target": torch.tensor([0.5, 4.0, math.nan, 2.5, 1.0, 3.0])}
    view = {
        first.name: tensors[second.name]
        for first, second in zip(ROW_TEXT, SECOND_VIEW, strict=True)
    }
    hidden = {
        "a": network.family(tensors),
        "b": network.family(view | {"lengths": view["lengths"].clamp(min=1)}),
    }
    dense = network.heads["similarity"].pooler.dense
    vectors = {
        at: torch.tanh(states[:, 0] @ dense.weight.T + dense.bias) for at, states in hidden.items()
    }
    return network, tensors, vectors


def loss_of(query, keys, match, margin=0.0):
    scores = [F.cosine_similarity(query, key, dim=0).item() / TEMPERATURE for key in keys]
    scores[match] -= margin / TEMPERATURE
    return math.log(sum(map(math.exp, scores))) - scores[match]


PAIRED = {
    "other": {"a": "b"},
    "bidirectional": {"a": "b", "b": "a"},
    "both": {"a": "ab", "b": "ab"},
}
"""Views whose rows are compared, each with the views of its keys."""


@pytest.mark.parametrize("margin", [0.0, 0.3])
@pytest.mark.parametrize("negatives", PAIRED)
def test_the_loss_of_views_against_those_of_their_group(negatives, margin):
    """A margin belongs to the two views of a row. The sum over both directions of LaBSE is divided
    by the number of rows (equations 1 and 2 of arXiv 2007.01852), COCO-LM averages both views."""
    network, tensors, vectors = drawn(negatives=negatives, margin=margin)
    wanted = 0.0

    for rows in ROWS.values():
        for side, sides in PAIRED[negatives].items():
            for row in rows:
                keys = [(s, r) for s in sides for r in rows if (s, r) != (side, row)]
                match = keys.index(("b" if side == "a" else "a", row))
                wanted += loss_of(
                    vectors[side][row], [vectors[s][r] for s, r in keys], match, margin
                )

    found = only(network(tensors))
    wanted /= 2 if negatives == "both" else 1

    assert (found.count, found.total.item()) == (4, pytest.approx(wanted, rel=1e-5))


def test_without_negatives_a_cosine_is_compared_with_the_target():
    """Targets are 0.5, 4, none, 2.5, 1, 3 of a range from -1 to 5.

    Row 2 has no second view, row 5 no weight.
    """
    network, tensors, vectors = drawn(negatives="none", range=[-1.0, 5.0])
    cosines = F.cosine_similarity(vectors["a"], vectors["b"], dim=-1)
    wanted = sum(
        (cosines[row].item() - (target + 1) / 6) ** 2
        for row, target in {0: 0.5, 1: 4, 3: 2.5, 4: 1}.items()
    )
    found = only(network(tensors))

    assert found.count == 4
    assert found.total.item() == pytest.approx(wanted, rel=1e-5)

    found.total.backward()

    assert all(parameter.grad.isfinite().all() for parameter in network.heads.parameters())

    del tensors["target"]
    with pytest.raises(BatchError, match="none needs pairs with a score"):
        network(tensors)


def test_rows_must_be_whole_groups():
    network, tensors, _ = drawn()
    some = {name: value[:4] for name, value in tensors.items() if value.shape[0] == 6}

    with pytest.raises(
        BatchError, match=r"group_size: expected a multiple of 3 rows, got 4.*data\.micro_batch"
    ):
        network(some)


@pytest.mark.parametrize(
    ("side", "same", "left"), [("_b", (4, 3), 0), ("", (1, 0), 1)], ids=["second", "first"]
)
def test_rows_with_an_equal_text_are_no_negatives_of_each_other(side, same, left):
    """Each of the two is then compared with its own alone, and its loss is 0.

    The other group's is what it was.
    """
    network, tensors, vectors = drawn()
    for name in (f"input_ids{side}", f"lengths{side}"):
        tensors[name][same[0]] = tensors[name][same[1]]
    keys = [vectors["b"][row] for row in ROWS[left]]
    wanted = sum(loss_of(vectors["a"][row], keys, place) for place, row in enumerate(ROWS[left]))
    found = only(network(tensors))

    assert (found.count, found.total.item()) == (4, pytest.approx(wanted, rel=1e-5))


@pytest.mark.parametrize("negatives", ["other", "both"])
def test_pairs_that_are_not_alike_have_no_loss(negatives):
    """Targets are 0.5, 4, none, 2.5, 1, 3: with 2.5, rows 1 and 3 are left, each alone in its
    group."""
    network, tensors, _ = drawn(negatives=negatives, positive_threshold=2.5)
    found = only(network(tensors))

    assert (found.count, found.total.item()) == (2, pytest.approx(0.0, abs=1e-6))

    network, tensors, _ = drawn(negatives=negatives, positive_threshold=0.5)

    assert only(network(tensors)).count == 4

    del tensors["target"]
    network, _, _ = drawn(negatives=negatives, positive_threshold=2.5)

    assert only(network(tensors)).count == 4, "a set without numbers"


def test_pooled_states_are_compared_as_they_are():
    """No parameters of its own, and padding has no part in it."""
    network = built("encoder", heads={"similarity": {"pool": "mean", "group_size": 3}}).eval()
    tensors = full_batch()

    assert not list(network.heads["similarity"].parameters())

    states = network.family(tensors)
    lengths = tensors["lengths"].tolist()
    means = torch.stack([row[:length].mean(0) for row, length in zip(states, lengths, strict=True)])

    assert torch.allclose(
        network.logits(tensors)["similarity"], F.normalize(means, dim=-1), atol=1e-6
    )
    assert only(network(tensors)).count == 4
