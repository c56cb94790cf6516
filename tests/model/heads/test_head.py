import pytest

from clozeline.columns import CHOICES, ROW_WEIGHT, names_of
from clozeline.errors import BatchError
from clozeline.model.registries import FAMILIES, HEADS
from clozeline.tools.start.contracts.heads import CHECKS, batch_of, prepare
from tests.contracts import contract
from tests.model.small_models import batch_for, built, head_keys, weighted_batch


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "none"])
@contract(FAMILIES, "family")
def test_every_parameter_takes_part_with_a_gradient_of_zero_where_nothing_is_predicted(
    family, labels
):
    network = built(family)
    tensors = batch_for(family, labels=labels)
    losses = network(tensors)
    for name, head in network.heads.items():
        assert head.count(tensors) == losses[name].count
        assert (
            names_of(
                (
                    *head.reads,
                    *network.family.reads,
                    ROW_WEIGHT,
                )
            )
            >= network.reads.keys()
        )

    sum(loss.total for loss in losses.values()).backward()

    for name, parameter in network.named_parameters():
        assert parameter.ndim > 0, name
        assert parameter.grad.isfinite().all(), name
        assert labels or not parameter.grad.any(), name

    assert labels or {(loss.total.item(), loss.count) for loss in losses.values()} == {(0.0, 0)}


@pytest.mark.parametrize("name", ["label_weight", "label_count"])
def test_two_units_in_one_head_are_refused(name):
    network = built("encoder", type_vocab_size=0, heads={"masked_lm": {"normalize": "row"}})
    tensors = batch_for("encoder") | {name: weighted_batch()[name]}

    with pytest.raises(
        BatchError, match=f"normalize: row needs labels of equal weight, but .* have {name}: set"
    ):
        network(tensors)


def case_of(name, **sizes):
    return prepare({"name": name, **head_keys(name)}, **sizes)


@pytest.mark.parametrize("check", CHECKS)
@contract(HEADS)
def test_contract(name, check):
    check(case_of(name))


@contract(HEADS)
def test_no_head_reads_what_it_does_not_declare(name):
    """The batch of a case holds what is declared; further tensors change nothing."""
    case = case_of(name)
    further = batch_of(HEADS.load_class(name))
    assert case.compute_loss(further).total.item() == case.compute_loss().total.item()


@contract(HEADS)
def test_a_head_starts_as_its_family(name):
    """BERT and its kin: N(0, 0.02), biases 0, gains 1."""
    for at, parameter in case_of(name, dim=200).head.named_parameters():
        if parameter.ndim == 1:
            assert parameter.eq(1.0 if "norm.weight" in at else 0.0).all(), at
        elif parameter.numel() > 5_000:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), at


@contract(HEADS)
def test_scores_need_hidden_states_alone(name):
    case = case_of(name)
    (scores,) = case.model.logits(case.batch).values()
    assert scores.shape[0] == 6
    missing = 9 if CHOICES in case.head.reads else 0  # choices that examples lack
    assert (scores.isneginf().sum(), scores.isfinite().sum()) == (missing, scores.numel() - missing)


@contract(HEADS)
def test_the_limit_of_labels_holds_for_those_of_a_batch(name):
    case = case_of(name)
    limit = case.head.label_limit(24)
    classes, weights = case.head.labels(case.batch)
    assert limit is None or not classes.numel() or classes[weights != 0].max() < limit
