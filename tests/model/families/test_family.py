import pytest
import torch

from clozeline.columns import names_of
from clozeline.errors import BatchError
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.registries import FAMILIES
from tests.contracts import contract
from tests.extensions.published.peers import difference, saved
from tests.model.parameters.test_flops import counted
from tests.model.small_models import RECURRENT, VOCABULARY, batch_for, built, states

UNCOUNTED = ("replaced_tokens", "xlnet")
"""Families whose own tests count their products."""


@contract(FAMILIES, "family")
def test_padding_beside_a_row_changes_it_by_rounding_only(family):
    network = built(family)
    tensors = batch_for(family, lengths=[6, 6])
    short = {
        name: value[:, :6] if value.ndim == 2 and "decoder" not in name else value
        for name, value in tensors.items()
    }

    if FAMILIES.load_class(family).architecture == "encoder_decoder":
        short |= {
            name: value[:, :6]
            for name, value in tensors.items()
            if name.startswith("decoder") and value.ndim == 2
        }

    assert torch.allclose(
        states(network, tensors)[:, :6],
        states(network, short)[:, :6],
        atol=1e-5,
    )


@contract(FAMILIES, "family")
def test_rows_of_one_token_and_filler_rows_are_finite(family):
    network = built(family)
    tensors = batch_for(family, lengths=[1, 1, 1])
    tensors["row_weight"] = torch.zeros(3)
    assert states(network, tensors).isfinite().all()
    assert {(loss.total.item(), loss.count) for loss in network(tensors).values()} == {(0.0, 0)}


@contract(FAMILIES, "family")
def test_a_family_reads_what_it_says_it_needs(family):
    network = built(family)
    tensors = batch_for(family)
    needed = {name: tensors[name] for name in names_of(network.family.reads)}

    def read(given):
        return torch.cat(
            [view.hidden.flatten() for view in network.family.views(given, network.heads).values()]
        )

    assert torch.equal(read(needed), read(tensors))

    for name in needed.keys() - {"sample_words"}:  # without these a generator replaces nothing
        with pytest.raises(KeyError, match=name):
            read({other: value for other, value in needed.items() if other != name})

    assert network.family.tokens.weight.shape == (VOCABULARY, 24)


@contract(FAMILIES, "family")
def test_padding_on_the_left_is_read_or_refused(family):
    network = built(family)
    tensors = batch_for(family, lengths=[11, 6]) | {"left_padding": torch.tensor([0, 5])}

    if network.family.left_padding and all(head.unit == "label" for head in network.heads.values()):
        assert all(loss.total.isfinite() for loss in network(tensors).values())
        without = {name: value for name, value in tensors.items() if name != "left_padding"}
        assert any(
            loss.total != network(without)[head].total for head, loss in network(tensors).items()
        )
    else:
        with pytest.raises(BatchError, match="left_padding"):
            network(tensors)


@pytest.mark.parametrize("case", ["bert", "gpt2", "bart", "mobilebert", "xlnet"])
def test_a_family_computes_what_the_published_class_computes(case, tmp_path):
    theirs = saved(tmp_path, case, seed=6)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@contract(FAMILIES, "family", only=lambda name: name not in UNCOUNTED)
def test_products_of_a_row_are_those_that_torch_counts(family):
    """One half of the scores of a causal stack is not read, and does not count."""
    network = built(family)
    causal = {
        "decoder": 2 * 4 * 11 * 11 * 24 / 2,
        "encoder_decoder": 3 * 4 * 9 * 9 * 20 / 2,
    }
    unread = (
        0
        if family in (*RECURRENT, "lstm_encoder_decoder")
        else causal.get(FAMILIES.load_class(family).architecture, 0)
    )
    assert network.family.flops(11, 9) == counted(network, batch_for(family, lengths=[11])) - unread
