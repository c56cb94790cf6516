"""Sums and counts: what a head returns for labeled, unlabeled and filler rows."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.loss import (
    choice_rows,
    cross_entropy_sum,
)
from clozeline.tools.start.contracts.heads import rows_of
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.small_models import VOCABULARY, batch_for, built, only, weighted_batch


@pytest.mark.parametrize("cap", [None, 0.3])
@pytest.mark.parametrize("weights", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", ["lm", "masked_lm"])
def test_scores_of_chunks_add_up_and_are_not_kept(name, weights, cap):
    family = "decoder" if name == "lm" else "encoder"
    tensors = batch_for(family, rows=7)  # 14 labels: chunks of 4, 4, 4 and 2
    if weights:
        tensors["label_weight"] = torch.linspace(0.1, 2.0, len(tensors["label_ids"]))
    results = []

    for chunk in (None, 4):
        network = built(family, heads={name: {"label_chunk": chunk}}, final_logit_softcapping=cap)
        largest = [0]

        def keep(tensor, largest=largest):
            rows = len(tensor) if tensor.shape[1:] == (VOCABULARY,) else 0
            largest[0] = max(largest[0], rows if rows <= 14 else 0)  # a matrix of weights has 24
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = only(network(tensors)).total
        loss.backward()
        results.append(
            (
                loss,
                [parameter.grad for parameter in network.parameters()],
                largest[0],
            )
        )

    (whole, gradients, all_scores), (parts, others, kept) = results

    assert parts.item() == pytest.approx(whole.item(), rel=1e-6)
    assert all(
        torch.allclose(one, other, atol=1e-6) for one, other in zip(gradients, others, strict=True)
    )
    assert all_scores == len(tensors["label_ids"]) == 14
    assert kept == 0


@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize("weights", [False, True], ids=["alike", "weighted"])
def test_z_loss_adds_the_squared_log_of_the_partition_function_in_training(weights, chunk):
    tensors = batch_for("decoder", rows=7)
    if weights:
        tensors["label_weight"] = torch.linspace(0.1, 2.0, len(tensors["label_ids"]))
    plain = built("decoder", heads={"lm": 1.0})
    network = built("decoder", heads={"lm": {"label_chunk": chunk, "z_loss": 0.25}})
    scores = plain.logits(tensors)["lm"].flatten(0, 1)[tensors["label_index"]].double()
    rows = tensors["label_index"] // tensors["input_ids"].shape[1]
    of_label = tensors["row_weight"][rows] * tensors.get("label_weight", 1.0)
    squares = scores.exp().sum(-1).log().square() * of_label

    usual = only(plain(tensors)).total.item()
    assert only(network(tensors)).total.item() == pytest.approx(
        usual + 0.25 * squares.sum().item(), rel=1e-5
    )
    assert only(network.eval()(tensors)).total.item() == pytest.approx(usual, rel=1e-6)


def test_the_loss_is_a_weighted_sum_over_the_declared_count():
    network = built("encoder", type_vocab_size=0)
    tensors = weighted_batch()
    loss = only(network(tensors))
    logits = network.logits(tensors)["masked_lm"].flatten(0, 1).double()
    by_hand = 0.0

    for index, label, weight in zip(
        *(tensors[f"label_{name}"] for name in ("index", "ids", "weight")), strict=True
    ):
        if index // 11 != 3:
            by_hand -= (weight * logits[index].log_softmax(-1)[label]).item()

    assert loss.total.item() == pytest.approx(by_hand, rel=1e-6)
    assert loss.count == 10 + 10 + 8 + 10, (
        "neither the filler row nor the row without labels counts"
    )


@pytest.mark.parametrize("normalize", ["label", "row"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_any_split_of_a_mixed_batch_adds_up(normalize, size):
    network = built(
        "encoder", type_vocab_size=0, heads={"masked_lm": {"normalize": normalize}}
    ).eval()
    tensors = weighted_batch()
    if normalize == "row":
        del tensors["label_weight"], tensors["label_count"]
    whole = only(network(tensors))
    (whole.total / whole.count).backward()
    expected = gradients(network)
    network.zero_grad()
    parts = [rows_of(tensors, slice(first, first + size)) for first in range(0, 6, size)]

    assert sum(network.heads["masked_lm"].count(part) for part in parts) == whole.count

    for part in parts:
        (only(network(part)).total / whole.count).backward()

    assert_gradients_close(gradients(network), expected, FLOAT32)


def test_a_missing_tensor_is_named():
    tensors = batch_for("encoder")
    del tensors["label_ids"]
    with pytest.raises(BatchError, match=r"needs label_ids, has .*input_ids"):
        built("encoder")(tensors)


def test_cross_entropy_is_summed_in_fp32():
    logits = torch.tensor([[1000.0, 0.0], [0.0, 1000.0]], dtype=torch.bfloat16)
    total = cross_entropy_sum(logits, torch.tensor([1, -100]))
    assert (total.item(), total.dtype) == (1000.0, torch.float32)


def test_choices_are_numbered_through_and_cut_at_their_number():
    assert choice_rows(torch.tensor([2, 1, 3])).tolist() == [[0, 1, -1], [2, -1, -1], [3, 4, 5]]
