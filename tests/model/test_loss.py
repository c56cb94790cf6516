"""Sums and counts: what a head returns for labelled, unlabelled and filler rows."""

import doctest

import pytest
import torch

import model.loss
from model.build import build_model
from model.config import HeadConfig
from model.errors import BatchError
from model.loss import IGNORED, cross_entropy_sum, gather_labels
from tests.model.small_models import FAMILIES, VOCABULARY, batch_for, small_config


def built(family, **changes):
    torch.manual_seed(0)
    return build_model(small_config(family, **changes), VOCABULARY, {"pad": 0})


def only(losses):
    (loss,) = losses.values()
    return loss


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sum_is_over_the_labelled_places(family):
    network, tensors = built(family), batch_for(family)
    loss = only(network(tensors))
    (logits,) = network.logits(tensors).values()
    by_hand = 0.0
    for index, label in zip(tensors["label_index"].tolist(), tensors["label_ids"].tolist(), strict=True):
        scores = logits[index // logits.shape[1], index % logits.shape[1]].double()
        by_hand += (scores.exp().sum().log() - scores[label]).item()
    assert loss.total.item() == pytest.approx(by_hand, rel=1e-5)
    assert loss.total.dtype == torch.float32
    assert loss.count == len(tensors["label_ids"])


@pytest.mark.parametrize("family", FAMILIES)
def test_without_labels_every_parameter_has_a_gradient_of_zero(family):
    network = built(family)
    loss = only(network(batch_for(family, labels=False)))
    assert (loss.total.item(), loss.count) == (0.0, 0)
    loss.total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_takes_part(family):
    network = built(family)
    only(network(batch_for(family))).total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.ndim > 0, name
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_weight_zero_changes_neither_sum_nor_count(family):
    network, tensors = built(family), batch_for(family)
    tensors["row_weight"][2] = 0
    loss = only(network(tensors))
    kept = tensors["label_index"] // (9 if family == "encoder_decoder" else 11) != 2
    fewer = tensors | {"label_index": tensors["label_index"][kept], "label_ids": tensors["label_ids"][kept]}
    expected = only(network(fewer | {"row_weight": torch.ones(4)}))
    assert loss.count == expected.count == int(kept.sum()) < len(kept)
    assert loss.total.item() == pytest.approx(expected.total.item(), rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_count_needs_no_forward(family):
    network, tensors = built(family), batch_for(family)
    for name, head in network.heads.items():
        assert head.count(tensors) == network(tensors)[name].count
        assert head.needs | network.family.needs | {"row_weight"} >= network.needs


@pytest.mark.parametrize("family", FAMILIES)
def test_micro_batches_add_up_to_the_batch(family):
    network = built(family).eval()
    tensors = batch_for(family, lengths=[11, 4, 7, 9])
    columns = 9 if family == "encoder_decoder" else 11
    halves = []
    for rows in (slice(0, 2), slice(2, 4)):
        part = {name: value[rows] for name, value in tensors.items() if not name.startswith("label")}
        inside = (tensors["label_index"] // columns >= rows.start) & (tensors["label_index"] // columns < rows.stop)
        part["label_index"] = tensors["label_index"][inside] - rows.start * columns
        part["label_ids"] = tensors["label_ids"][inside]
        halves.append(only(network(part)))
    whole = only(network(tensors))
    assert sum(half.count for half in halves) == whole.count
    assert sum(half.total.item() for half in halves) == pytest.approx(whole.total.item(), rel=1e-5)


def part_of(tensors, rows, columns):
    """A slice of the rows as a micro-batch of its own."""
    flat = [name for name in tensors if name.startswith("label_") and name != "label_count"]
    part = {name: value[rows] for name, value in tensors.items() if name not in flat}
    inside = (tensors["label_index"] // columns >= rows.start) & (tensors["label_index"] // columns < rows.stop)
    part |= {name: tensors[name][inside] for name in flat}
    return part | {"label_index": part["label_index"] - rows.start * columns}


def weighted_batch():
    """Causal rows, masked rows with weight m / k and count m, a filler row, and a row without labels."""
    tensors = batch_for("encoder", lengths=[11, 11, 9, 8, 10, 11])
    places = [range(10), (1, 4), (0, 2, 5), (3,), (), (0, 7, 8, 9)]
    tensors["label_index"] = torch.tensor([row * 11 + place for row, of in enumerate(places) for place in of])
    tensors["label_ids"] = torch.arange(len(tensors["label_index"])) % VOCABULARY
    counts = torch.tensor([10, 10, 8, 8, 7, 10])
    weights = [10 / 10, 10 / 2, 8 / 3, 8 / 1, 0, 10 / 4]
    tensors["label_weight"] = torch.tensor([weight for weight, of in zip(weights, places, strict=True) for _ in of])
    attention, prefix = torch.tensor([1, 0, 0, 0, 1, 0]), torch.zeros(6, dtype=torch.int64)
    tensors |= {"label_count": counts, "attention": attention, "prefix_length": prefix}
    tensors["row_weight"][3] = 0
    return tensors


def test_the_loss_is_a_weighted_sum_over_the_declared_count():
    network, tensors = built("encoder", type_vocab_size=0), weighted_batch()
    loss, logits = only(network(tensors)), network.logits(tensors)["masked_lm"].flatten(0, 1).double()
    by_hand = 0.0
    for index, label, weight in zip(*(tensors[f"label_{name}"] for name in ("index", "ids", "weight")), strict=True):
        if index // 11 != 3:
            by_hand -= (weight * logits[index].log_softmax(-1)[label]).item()
    assert loss.total.item() == pytest.approx(by_hand, rel=1e-6)
    assert loss.count == 10 + 10 + 8 + 10, "neither the filler row nor the row without labels counts"


@pytest.mark.parametrize("normalise", ["label", "row"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_any_split_of_a_mixed_batch_adds_up(normalise, size):
    network = built("encoder", type_vocab_size=0, heads={"masked_lm": HeadConfig(normalise=normalise)}).eval()
    tensors = weighted_batch()
    if normalise == "row":
        del tensors["label_weight"], tensors["label_count"]
    whole = only(network(tensors))
    (whole.total / whole.count).backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    network.zero_grad()
    parts = [part_of(tensors, slice(first, first + size), 11) for first in range(0, 6, size)]
    assert sum(network.heads["masked_lm"].count(part) for part in parts) == whole.count
    for part in parts:
        (only(network(part)).total / whole.count).backward()
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("normalise", "shares"), [("label", [7 / 10, 2 / 10, 1 / 10]), ("row", [1 / 3] * 3)])
def test_gradient_shares_are_those_of_labels_or_of_rows(normalise, shares):
    """With all scores equal, each label has a gradient of the same size: its share is its weight."""
    network = built("encoder", heads={"masked_lm": HeadConfig(normalise=normalise)})
    tensors = batch_for("encoder", lengths=[11, 11, 11, 11])
    tensors["label_index"] = torch.tensor([0, 1, 2, 3, 4, 5, 6, 11, 19, 23, 34, 35])
    tensors["label_ids"] = torch.full((12,), 5)
    tensors["row_weight"][3] = 0
    seen = []
    head = network.heads["masked_lm"]
    head.projection.register_full_backward_hook(lambda _module, _inputs, outputs: seen.append(outputs[0]))
    with torch.no_grad():
        for parameter in head.projection.parameters():
            parameter.zero_()
    loss = only(network(tensors))
    (loss.total / loss.count).backward()
    sizes = seen[0].abs().sum(-1)
    assert sizes.sum().item() == pytest.approx(2 * (1 - 1 / VOCABULARY), rel=1e-6), "the shares make up the whole"
    by_row = [sizes[tensors["label_index"] // 11 == row].sum().item() for row in range(3)]
    assert [size / sum(by_row) for size in by_row] == pytest.approx(shares, rel=1e-6)


@pytest.mark.parametrize("name", ["label_weight", "label_count"])
def test_two_units_in_one_head_are_refused(name):
    network = built("encoder", type_vocab_size=0, heads={"masked_lm": {"normalise": "row"}})
    tensors = batch_for("encoder") | {name: weighted_batch()[name]}
    with pytest.raises(BatchError, match=f"model.heads.masked_lm.normalise: row would mix two units.* {name}"):
        network(tensors)


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_vocabulary_rows_never_win(family):
    network = built(family, vocab_multiple=16)
    assert network.family.tokens.num_embeddings == 48
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "tokens" in name:
                parameter[VOCABULARY:] = 100.0
    (logits,) = network.logits(batch_for(family)).values()
    assert logits.shape[-1] == VOCABULARY
    only(network(batch_for(family))).total.backward()
    assert not network.family.tokens.weight.grad[VOCABULARY:].any()


def test_a_missing_tensor_is_named():
    tensors = batch_for("encoder")
    del tensors["label_ids"]
    with pytest.raises(BatchError, match=r"needs label_ids, has .*input_ids"):
        built("encoder")(tensors)


def test_only_labelled_states_are_gathered():
    hidden = torch.arange(24.0).view(2, 3, 4)
    tensors = {"input_ids": torch.zeros(2, 3), "row_weight": torch.tensor([1.0, 0.0])}
    labels = {"label_index": torch.tensor([2, 4]), "label_ids": torch.tensor([7, 8])}
    states, ids, weights = gather_labels(hidden, tensors | labels)
    assert weights is None
    assert torch.equal(states, torch.stack((hidden[0, 2], hidden[1, 1])))
    assert ids.tolist() == [7, IGNORED]
    nothing = {"label_index": torch.tensor([]).long(), "label_ids": torch.tensor([]).long()}
    states, ids, _ = gather_labels(hidden, tensors | nothing)
    assert torch.equal(states, hidden[0, :1])
    assert ids.tolist() == [IGNORED]


def test_cross_entropy_is_summed_in_fp32():
    logits = torch.tensor([[1000.0, 0.0], [0.0, 1000.0]], dtype=torch.bfloat16)
    total = cross_entropy_sum(logits, torch.tensor([1, -100]))
    assert (total.item(), total.dtype) == (1000.0, torch.float32)


def test_examples_in_docstrings():
    assert doctest.testmod(model.loss).failed == 0
