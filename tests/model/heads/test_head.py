import pytest
import torch

from clozeline.errors import BatchError
from clozeline.registry import find, names
from tests.declarations import declared
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.small_models import (
    HEADS,
    PREDICT_NO_CLASSES,
    batch_for,
    built,
    choice_batch,
    full_batch,
    head_keys,
    only,
    rows_of,
    weighted_batch,
)


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "none"])
@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_every_parameter_takes_part_with_a_gradient_of_zero_where_nothing_is_predicted(family, labels):
    network, tensors = built(family), batch_for(family, labels=labels)
    losses = network(tensors)
    for name, head in network.heads.items():
        assert head.count(tensors) == losses[name].count
        assert head.needs | network.family.needs | {"row_weight"} >= network.needs
    sum(loss.total for loss in losses.values()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.ndim > 0, name
        assert parameter.grad.isfinite().all(), name
        assert labels or not parameter.grad.any(), name
    assert labels or {(loss.total.item(), loss.count) for loss in losses.values()} == {(0.0, 0)}


@pytest.mark.parametrize("name", ["label_weight", "label_count"])
def test_two_units_in_one_head_are_refused(name):
    network = built("encoder", type_vocab_size=0, heads={"masked_lm": {"normalise": "row"}})
    tensors = batch_for("encoder") | {name: weighted_batch()[name]}
    with pytest.raises(BatchError, match=f"model.heads.masked_lm.normalise: row would mix two units.* {name}"):
        network(tensors)


def halves(name):
    """Whether a head projects each half of a state."""
    return declared("model.heads", name, "HALVES", False)


def with_head(name, **changes):
    width = 12 if halves(name) else None
    return built("encoder", emb_dim=width, heads={name: head_keys(name) | changes}).eval()


def batch_of(name, seed=0):
    return choice_batch(seed) if "choices" in find("clozeline.model.heads", name).needs else full_batch(seed)


@pytest.mark.parametrize("name", HEADS)
def test_micro_batches_add_up(name):
    """Sums, counts and gradients of parts are those of the whole, whatever the size of the parts."""
    network, tensors = with_head(name), batch_of(name)
    whole = only(network(tensors))
    assert whole.total > 0
    assert whole.count == network.heads[name].count(tensors) > 0
    (whole.total / whole.count).backward()
    expected = {at: parameter.grad.clone() for at, parameter in network.named_parameters()}
    for size in (3, 6) if name == "similarity" else (1, 2, 3):
        network.zero_grad()
        parts = [rows_of(tensors, slice(first, first + size)) for first in range(0, 6, size)]
        losses = [only(network(part)) for part in parts]
        assert sum(loss.count for loss in losses) == whole.count
        assert sum(loss.total.item() for loss in losses) == pytest.approx(whole.total.item(), rel=1e-5)
        for loss in losses:
            (loss.total / whole.count).backward()
        assert_gradients_close(gradients(network), expected, FLOAT32)


@pytest.mark.parametrize("name", HEADS)
def test_a_class_is_named_for_each_prediction_that_counts(name):
    """Also where rows have weight 0."""
    network, tensors = with_head(name), batch_of(name)
    head = network.heads[name]
    for weights in ([1.0] * 6, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]):
        tensors["row_weight"] = torch.tensor(weights)
        found = head.classes(tensors)
        assert found.dtype == torch.int64
        assert len(found) == (
            head.count(tensors)
            if declared("model.heads", name, "PREDICTS_CLASSES", name not in PREDICT_NO_CLASSES)
            else 0
        )
        assert (found >= 0).all()


@pytest.mark.parametrize("name", HEADS)
def test_a_row_of_weight_zero_changes_nothing(name):
    network, tensors = with_head(name), batch_of(name)
    loss = only(network(tensors))
    other = batch_of(name, seed=9)
    changed = {}
    for at, value in tensors.items():
        last = {6: 1, 15: 3}.get(value.shape[0], 0)  # rows of the last example
        kept = value.shape[0] - last
        changed[at] = value if at.startswith("lengths") else torch.cat((value[:kept], other[at][kept:]))
    again = only(network(changed))
    assert not torch.equal(changed["input_ids"], tensors["input_ids"])
    assert (again.count, again.total.item()) == (loss.count, pytest.approx(loss.total.item(), rel=1e-6))


@pytest.mark.parametrize("name", HEADS)
def test_no_head_needs_what_it_does_not_declare(name):
    network, tensors = with_head(name), batch_of(name)
    known = network.needs | {"type_ids"}
    loss = only(network({at: value for at, value in tensors.items() if at in known}))
    assert loss.total.item() == only(network(tensors)).total.item()


@pytest.mark.parametrize("name", HEADS)
def test_rows_with_nothing_to_predict_have_a_gradient_of_zero(name):
    """Every parameter has a gradient, so that ranks with such a batch take part in what the others reduce."""
    network, tensors = with_head(name), batch_of(name)
    tensors["row_weight"] = torch.zeros(6)
    for labels in (slice(None), slice(0)):
        flat = {at: value[labels] for at, value in tensors.items() if at.startswith(("label_", "span_"))}
        loss = only(network(tensors | flat))
        assert (loss.total.item(), loss.count) == (0.0, 0)
        network.zero_grad()
        loss.total.backward()
        for at, parameter in network.named_parameters():
            assert parameter.grad is not None, at
            assert not parameter.grad.any(), at


@pytest.mark.parametrize("name", HEADS)
def test_a_head_starts_as_its_family(name):
    """BERT and its kin: N(0, 0.02), biases 0, gains 1."""
    width = 100 if halves(name) else None
    network = built("encoder", dim=200, ffn_dim=40, emb_dim=width, heads={name: head_keys(name)})
    for at, parameter in network.heads[name].named_parameters():
        if parameter.ndim == 1:
            assert parameter.eq(1.0 if "norm.weight" in at else 0.0).all(), at
        elif parameter.numel() > 10_000:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), at


@pytest.mark.parametrize("name", HEADS)
def test_scores_need_hidden_states_alone(name):
    scores = with_head(name).logits(batch_of(name))[name]
    assert scores.shape[0] == 6
    missing = 9 if name == "multiple_choice" else 0  # choices that examples lack
    assert (scores.isneginf().sum(), scores.isfinite().sum()) == (missing, scores.numel() - missing)
