import copy

import pytest
import torch

from tests.model.small_models import FAMILIES, VOCABULARY, batch_for, built, only, total


def projection(network):
    (head,) = network.heads.values()
    return head.projection


@pytest.mark.parametrize("family", FAMILIES)
def test_tied_weights_stay_tied(family):
    network = built(family)
    clone = copy.deepcopy(network).to(torch.float64)
    clone.load_state_dict(network.state_dict())

    for tied in (network, clone):
        assert projection(tied).weight is tied.family.tokens.weight
        total(tied, batch_for(family)).backward()
        torch.optim.SGD(tied.parameters(), lr=0.1).step()
        assert projection(tied).weight.data_ptr() == tied.family.tokens.weight.data_ptr()

    assert len({id(p) for p in network.parameters()}) == len(dict(network.named_parameters()))


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
