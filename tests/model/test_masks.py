"""A token's state does not change by a single bit when a token changes that it may not see."""

import pytest
import torch

from model.build import build_model
from model.config import PositionConfig
from model.errors import BatchError
from model.masks import padding_mask, plan_attention
from tests.model.small_models import FAMILIES, VOCABULARY, batch_for, small_config


def states(network, tensors):
    with torch.no_grad():
        return network.family(tensors)


def built(family, **changes):
    torch.manual_seed(0)
    return build_model(small_config(family, **changes), VOCABULARY, {"pad": 0}).eval()


def changed(tensors, name, row, place):
    ids = tensors[name].clone()
    ids[row, place] = (ids[row, place] + 1) % VOCABULARY
    return tensors | {name: ids}


@pytest.mark.parametrize("kind", ["learned", "rope", "t5"])
def test_a_decoder_sees_no_later_token(kind):
    network = built("decoder", position=PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9))
    tensors = batch_for("decoder", lengths=[11, 11])
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        assert torch.equal(before[0, :place], after[0, :place])
        assert not torch.equal(before[0, place:], after[0, place:])
        assert torch.equal(before[1], after[1])


@pytest.mark.parametrize("kind", ["learned", "rope", "t5"])
def test_a_prefix_is_seen_in_both_directions_and_nothing_later(kind):
    network = built("decoder", position=PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9))
    tensors = batch_for("decoder", lengths=[11, 11]) | {"prefix_length": torch.tensor([4, 0])}
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        unseen = 0 if place < 4 else place
        assert torch.equal(before[0, :unseen], after[0, :unseen])
        assert not (before[0, unseen:] == after[0, unseen:]).all(-1).any()
        assert torch.equal(before[1], after[1])
        without = states(network, changed(tensors, "input_ids", 1, place))
        assert torch.equal(before[1, :place], without[1, :place])


@pytest.mark.parametrize("kind", ["learned", "t5"])
def test_an_encoder_sees_its_row_and_no_padding(kind):
    network = built("encoder", position=PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9))
    tensors = batch_for("encoder", lengths=[6, 11])
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        equal = torch.equal(before[0, :6], after[0, :6])
        assert equal == (place >= 6)
        if place < 6:
            assert not (before[0, :6] == after[0, :6]).all(-1).any(), "every token sees the changed one"


def modes_for(lengths, modes, prefixes):
    tensors = batch_for("encoder", lengths=lengths)
    return tensors | {"attention": torch.tensor(modes), "prefix_length": torch.tensor(prefixes)}


@pytest.mark.parametrize("kind", ["learned", "t5"])
@pytest.mark.parametrize(("mode", "prefix"), [(0, 0), (1, 0), (2, 0), (3, 4)])
def test_no_mode_of_attention_reads_what_it_may_not(kind, mode, prefix):
    position = PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9)
    network = built("encoder", position=position, type_vocab_size=0, layers=1)
    tensors = modes_for([9, 11], [mode, 0], [prefix, 0])
    before = states(network, tensors)
    assert before.isfinite().all()
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        same = (before[0] == after[0]).all(-1)
        for query in range(9):
            reads = [True, place <= query, place >= query, place <= query or place < prefix][mode] and place < 9
            assert bool(same[query]) != reads, (query, place)
        assert torch.equal(before[1], after[1])


@pytest.mark.parametrize("kind", ["learned", "t5"])
def test_a_batch_of_several_modes_equals_each_row_alone(kind):
    position = PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9)
    network = built("encoder", position=position, type_vocab_size=6)
    tensors = modes_for([11, 8, 5, 9, 1], [0, 1, 2, 3, 3], [0, 0, 0, 4, 1])
    tensors["type_ids"] = torch.tensor([0, 2, 3, 4, 5])[:, None].expand(5, 11)
    together = states(network, tensors)
    assert together.isfinite().all()
    for row, length in enumerate(tensors["lengths"].tolist()):
        names = ("input_ids", "position_ids", "type_ids", "lengths", "attention", "prefix_length")
        alone = {name: tensors[name][row : row + 1] for name in names}
        alone |= {name: alone[name][:, :length] for name in names[:3]}
        assert torch.allclose(together[row, :length], states(network, alone)[0], atol=1e-5)


def test_modes_of_attention_keep_documents_apart():
    network = built("encoder", type_vocab_size=0)
    tensors = modes_for([11, 11], [2, 3], [0, 9]) | {"document_ids": torch.tensor([[0] * 5 + [1] * 6] * 2)}
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 1, place))
        other = slice(5, 11) if place < 5 else slice(0, 5)
        assert torch.equal(before[1, other], after[1, other])
        assert not torch.equal(before[1], after[1])


def test_a_table_of_segment_types_too_small_for_the_modes_is_refused():
    with pytest.raises(BatchError, match=r"model.type_vocab_size 6 or more"):
        states(built("encoder", type_vocab_size=2), modes_for([3], [1], [0]))


@pytest.mark.parametrize("kind", ["learned", "t5"])
def test_an_encoder_decoder_sees_the_source_and_no_later_target(kind):
    position = PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9)
    network = built("encoder_decoder", position=position)
    tensors = batch_for("encoder_decoder", lengths=[6, 11])
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        assert torch.equal(before[0], after[0]) == (place >= 6)
    for place in range(9):
        after = states(network, changed(tensors, "decoder_input_ids", 0, place))
        assert torch.equal(before[0, :place], after[0, :place])
        assert not torch.equal(before[0, place:], after[0, place:])


def test_a_decoder_beside_an_encoder_stands_at_the_places_of_the_batch():
    """Three places further in the batch, three rows further in its table, nothing else."""
    network = built("encoder_decoder", position=PositionConfig(kind="learned", maximum=32))
    tensors = batch_for("encoder_decoder", lengths=[6, 11])
    before = states(network, tensors)
    moved = tensors | {"decoder_position_ids": tensors["decoder_position_ids"] + 3}
    assert not torch.equal(states(network, moved), before)
    table = network.family.decoder.position.table.weight
    table.data = table.data.roll(3, dims=0)
    assert torch.equal(states(network, moved), before)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_beside_a_row_changes_it_by_rounding_only(family):
    network = built(family)
    tensors = batch_for(family, lengths=[6, 6])
    short = {
        name: value[:, :6] if value.ndim == 2 and "decoder" not in name else value for name, value in tensors.items()
    }
    if family == "encoder_decoder":
        short |= {
            name: value[:, :6] for name, value in tensors.items() if name.startswith("decoder") and value.ndim == 2
        }
    assert torch.allclose(states(network, tensors)[:, :6], states(network, short)[:, :6], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_one_token_and_filler_rows_are_finite(family):
    network, tensors = built(family), batch_for(family, lengths=[1, 1, 1])
    tensors["row_weight"] = torch.zeros(3)
    assert states(network, tensors).isfinite().all()
    (loss,) = network(tensors).values()
    assert (loss.total.item(), loss.count) == (0.0, 0)


def test_no_mask_where_nothing_is_padded():
    assert padding_mask(torch.tensor([4, 4]), 4, torch.device("cpu")) is None
    mask = padding_mask(torch.tensor([4, 1]), 4, torch.device("cpu"))
    assert mask.squeeze().tolist() == [[True] * 4, [True, False, False, False]]


def test_the_plan_is_the_least_that_attention_needs():
    padding = padding_mask(torch.tensor([2, 1]), 2, torch.device("cpu"))
    bias = torch.tensor([[[[0.5, 1.0], [2.0, 0.25]]]])
    assert plan_attention(None, None, causal=False)[:2] == (None, False)
    assert plan_attention(None, padding, causal=True)[:2] == (None, True)
    assert plan_attention(None, padding, causal=False).mask is padding
    assert plan_attention(bias, None, causal=False).mask is bias
    causal = plan_attention(bias, None, causal=True)
    assert not causal.causal
    assert (causal.mask[0, 0] < -1e38).tolist() == [[False, True], [False, False]]
    padded = plan_attention(bias, padding, causal=False).mask
    assert (padded[:, 0] < -1e38).tolist() == [[[False, False]] * 2, [[False, True]] * 2]
    assert padded[0].eq(bias[0]).all()
