import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.configuration.head import HeadConfig
from clozeline.registry import names
from clozeline.tools.start.contracts import heads as contract
from tests.model.small_models import HEADS, VOCABULARY, batch_for, built, head_keys, only, weighted_batch
from tests.temporary_module import temporary_module


@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_without_labels_every_parameter_has_a_gradient_of_zero(family):
    network = built(family)
    losses = network(batch_for(family, labels=False)).values()
    assert {(loss.total.item(), loss.count) for loss in losses} == {(0.0, 0)}
    sum(loss.total for loss in losses).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_every_parameter_takes_part(family):
    network = built(family)
    sum(loss.total for loss in network(batch_for(family)).values()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.ndim > 0, name
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_the_count_needs_no_forward(family):
    network, tensors = built(family), batch_for(family)
    for name, head in network.heads.items():
        assert head.count(tensors) == network(tensors)[name].count
        assert head.needs | network.family.needs | {"row_weight"} >= network.needs


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


def case_of(name, seed=0, **sizes):
    return contract.prepare({"name": name, **head_keys(name)}, seed, **sizes)


AGAIN = """
from clozeline.model.heads.masked_lm import MaskedLM

class Again(MaskedLM):
    \"\"\"The masked LM under another name.\"\"\"
"""


def test_a_new_file_is_tested_at_once(tmp_path):
    """The tests of this file are functions of the name alone."""
    with temporary_module("clozeline.model.heads", "again", AGAIN, tmp_path):
        assert {"again", *HEADS} == set(names("clozeline.model.heads"))
        for check in contract.CHECKS:
            test_contract("again", check)
        test_scores_need_hidden_states_alone("again")


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize("name", HEADS)
def test_contract(name, check):
    check(case_of(name))


def test_heads_that_predict_no_classes():
    """Numbers, positions, or tokens and copies at once."""
    cases = {name: case_of(name) for name in HEADS}
    none = {name for name, case in cases.items() if not len(case.head.classes(case.batch))}
    assert none == {"corrective", "regression", "similarity", "span", "token"}


@pytest.mark.parametrize("name", HEADS)
def test_no_head_reads_what_it_does_not_declare(name):
    """The batch of a case holds what is declared; further tensors change nothing."""
    case = case_of(name)
    further = contract.choice_batch() if "choices" in case.batch else contract.full_batch()
    assert case.compute_loss(further).total.item() == case.compute_loss().total.item()


@pytest.mark.parametrize("name", HEADS)
def test_a_head_starts_as_its_family(name):
    """BERT and its kin: N(0, 0.02), biases 0, gains 1."""
    for at, parameter in case_of(name, dim=200).head.named_parameters():
        if parameter.ndim == 1:
            assert parameter.eq(1.0 if "norm.weight" in at else 0.0).all(), at
        elif parameter.numel() > 5_000:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), at


@pytest.mark.parametrize("name", HEADS)
def test_scores_need_hidden_states_alone(name):
    case = case_of(name)
    (scores,) = case.model.logits(case.batch).values()
    assert scores.shape[0] == 6
    missing = 9 if name == "multiple_choice" else 0  # choices that examples lack
    assert (scores.isneginf().sum(), scores.isfinite().sum()) == (missing, scores.numel() - missing)
