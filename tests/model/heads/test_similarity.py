"""InfoNCE against loops over rows: SimCSE's equation 1, and COCO-LM's equation 4 over both views."""

import math

import pytest
import torch
from torch.nn import functional as F

from model.errors import BatchError
from tests.model.small_models import built, full_batch, only

TEMPERATURE = 0.5
ROWS = {0: [0, 1], 1: [3, 4]}
"""Rows of each group of three that take part: row 2 has no second view, row 5 no weight."""


def drawn(**options):
    network = built("encoder", heads={"similarity": {"temperature": TEMPERATURE, "group_size": 3, **options}}).eval()
    for parameter in network.heads["similarity"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    tensors = full_batch()
    view = {name.removesuffix("_b"): value for name, value in tensors.items() if name.endswith("_b")}
    hidden = {"a": network.family(tensors), "b": network.family(view | {"lengths": view["lengths"].clamp(min=1)})}
    dense = network.heads["similarity"].pooler.dense
    vectors = {at: torch.tanh(states[:, 0] @ dense.weight.T + dense.bias) for at, states in hidden.items()}
    return network, tensors, vectors


def loss_of(query, keys, match):
    scores = [F.cosine_similarity(query, key, dim=0).item() / TEMPERATURE for key in keys]
    return math.log(sum(map(math.exp, scores))) - scores[match]


def test_the_second_views_of_the_group():
    network, tensors, vectors = drawn()
    wanted = 0.0
    for rows in ROWS.values():
        for place, row in enumerate(rows):
            wanted += loss_of(vectors["a"][row], [vectors["b"][other] for other in rows], place)
    found = only(network(tensors))
    assert found.count == 4
    assert found.total.item() == pytest.approx(wanted, rel=1e-5)


def test_both_views_of_other_rows():
    network, tensors, vectors = drawn(negatives="both")
    wanted = 0.0
    for rows in ROWS.values():
        texts = [(side, row) for side in "ab" for row in rows]
        for side, row in texts:
            others = [(s, r) for s, r in texts if (s, r) != (side, row)]
            match = others.index(("b" if side == "a" else "a", row))
            wanted += loss_of(vectors[side][row], [vectors[s][r] for s, r in others], match) / 2
    found = only(network(tensors))
    assert found.count == 4
    assert found.total.item() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("negatives", ["other", "both"])
def test_a_row_compares_with_its_group_only(negatives):
    """A change of a text in the second group leaves the loss of the first as it is."""
    network, tensors, _ = drawn(negatives=negatives)
    first = {name: value[:3] for name, value in tensors.items() if value.shape[0] == 6}
    alone = only(network(first)).total.item()
    second = {name: value[3:] for name, value in tensors.items() if value.shape[0] == 6}
    apart = only(network(second)).total.item()
    assert only(network(tensors)).total.item() == pytest.approx(alone + apart, rel=1e-6)


def test_rows_must_be_whole_groups():
    network, tensors, _ = drawn()
    some = {name: value[:4] for name, value in tensors.items() if value.shape[0] == 6}
    with pytest.raises(BatchError, match=r"group_size: 4 rows are no whole number of groups of 3.*data\.micro_batch"):
        network(some)


def test_vectors_have_length_1():
    network, tensors, vectors = drawn()
    found = network.logits(tensors)["similarity"]
    assert torch.allclose(found, F.normalize(vectors["a"], dim=-1), atol=1e-6)
